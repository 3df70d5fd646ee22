// Sums, quotients and products to the bit, and plans that ask for them, chunk by chunk.
#include "runtime/elements/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"
#include "runtime/executor/execute.h"
#include "tests/unit/runtime/executor/small_conversion.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using testing::HasSubstr;

struct Case {
  DType dtype;
  std::uint64_t terms[3];
  std::uint64_t mean;
  std::uint64_t quotient;
  std::uint64_t product;
};

// The results of PyTorch 2.13 (on a CPU), with `slices` the three columns viewed as the dtype:
//   sum(slices) / len(slices), slices[0] / (1 / 3), slices[0] * (1 / 3)
// Negative zeros, overflow on the way, subnormals, what is lost in one addition and would not be in two, and seven from
// torch.randn(7, 3, generator=torch.Generator().manual_seed(7), dtype=torch.float64) in the dtype.
// clang-format off
constexpr Case kTable[] = {
    {DType::kFloat16, {0x8000, 0x8000, 0x8000}, 0x0000, 0x8000, 0x8000},
    {DType::kFloat16, {0x7BFF, 0x7BFF, 0xFBFF}, 0x7C00, 0x7C00, 0x7555},
    {DType::kFloat16, {0x0001, 0x0001, 0x0000}, 0x0001, 0x0003, 0x0000},
    {DType::kFloat16, {0x3C00, 0x1000, 0x1000}, 0x3555, 0x4200, 0x3555},
    {DType::kFloat16, {0x6800, 0x3C00, 0x3C00}, 0x6155, 0x6E00, 0x6155},
    {DType::kFloat16, {0x2C3E, 0x2A04, 0x3F59}, 0x3933, 0x325D, 0x25A8},
    {DType::kFloat16, {0x3D79, 0x3C7C, 0x3FBB}, 0x3DE5, 0x441B, 0x374C},
    {DType::kFloat16, {0xBDC4, 0x39D2, 0xBD41}, 0xB968, 0xC453, 0xB7B0},
    {DType::kFloat16, {0xB53F, 0xBD69, 0x3F2E}, 0x28E0, 0xBBDE, 0xAEFF},
    {DType::kFloat16, {0x3270, 0xB831, 0xB48B}, 0xB278, 0x38D4, 0x2C4B},
    {DType::kFloat16, {0x373E, 0xBEAC, 0xBE59}, 0xBB78, 0x3D6E, 0x30D4},
    {DType::kFloat16, {0x400F, 0x3947, 0x3813}, 0x3C44, 0x4616, 0x3969},
    {DType::kBFloat16, {0x8000, 0x8000, 0x8000}, 0x0000, 0x8000, 0x8000},
    {DType::kBFloat16, {0x7F7E, 0x7F7E, 0xFF7E}, 0x7F80, 0x7F80, 0x7EA9},
    {DType::kBFloat16, {0x0001, 0x0001, 0x0000}, 0x0001, 0x0003, 0x0000},
    {DType::kBFloat16, {0x3F80, 0x3B80, 0x3B80}, 0x3EAB, 0x4040, 0x3EAB},
    {DType::kBFloat16, {0x4380, 0x3F80, 0x3F80}, 0x42AB, 0x4440, 0x42AB},
    {DType::kBFloat16, {0x3E23, 0x3F13, 0xBF11}, 0x3D65, 0x3EF4, 0x3D59},
    {DType::kBFloat16, {0xBF76, 0x3F4F, 0xBE07}, 0xBDC3, 0xC038, 0xBEA4},
    {DType::kBFloat16, {0xBFCA, 0xBFE3, 0xBF14}, 0xBFA7, 0xC098, 0xBF07},
    {DType::kBFloat16, {0xBF82, 0xBF9D, 0xBEA5}, 0xBF5C, 0xC043, 0xBEAD},
    {DType::kBFloat16, {0x3E82, 0x3FFD, 0x3ED6}, 0x3F63, 0x3F43, 0x3DAD},
    {DType::kBFloat16, {0xBE90, 0x3F9F, 0x3FC1}, 0x3F53, 0xBF58, 0xBDC0},
    {DType::kBFloat16, {0xBDE7, 0x3FB1, 0x3F99}, 0x3F53, 0xBEAD, 0xBD1A},
    {DType::kFloat32, {0x80000000, 0x80000000, 0x80000000}, 0x00000000, 0x80000000, 0x80000000},
    {DType::kFloat32, {0x7F7FC99E, 0x7F7FC99E, 0xFF7FC99E}, 0x7F800000, 0x7F800000, 0x7EAA866A},
    {DType::kFloat32, {0x00000001, 0x00000001, 0x00000000}, 0x00000001, 0x00000003, 0x00000000},
    {DType::kFloat32, {0x3F800000, 0x33800000, 0x33800000}, 0x3EAAAAAB, 0x40400000, 0x3EAAAAAB},
    {DType::kFloat32, {0x4B800000, 0x3F800000, 0x3F800000}, 0x4AAAAAAB, 0x4C400000, 0x4AAAAAAB},
    {DType::kFloat32, {0x3BC26C88, 0x40297C26, 0x3F6183F5}, 0x3F96D43B, 0x3C91D166, 0x3B019DB0},
    {DType::kFloat32, {0x3F49D0D0, 0xBF39558F, 0x3F62D52A}, 0x3EA2359D, 0x40175C9C, 0x3E868B36},
    {DType::kFloat32, {0xBFDA4910, 0xBEABD897, 0x3F299119}, 0xBEEB48E3, 0xC0A3B6CC, 0xBF11860B},
    {DType::kFloat32, {0xBEF8A2F4, 0xBFA5185B, 0xBEA2A9F5}, 0xBF329D0F, 0xBFBA7A37, 0xBE25C1F8},
    {DType::kFloat32, {0xBFBFDA29, 0xBEB549FC, 0xBCA53E38}, 0xBF1FD66B, 0xC08FE39E, 0xBEFFCD8C},
    {DType::kFloat32, {0x400B7C6B, 0xBF2B67E8, 0xBDDE1C65}, 0x3EEF2ED0, 0x40D13AA0, 0x3F39FB3A},
    {DType::kFloat32, {0xBFAE8DA9, 0xBF3F34D2, 0xBCE53569}, 0xBF367DF0, 0xC082EA3E, 0xBEE8BCE2},
    {DType::kFloat64, {0x8000000000000000, 0x8000000000000000, 0x8000000000000000},
     0x0000000000000000, 0x8000000000000000, 0x8000000000000000},
    {DType::kFloat64, {0x7FEE42D130773B76, 0x7FEE42D130773B76, 0xFFEE42D130773B76},
     0x7FF0000000000000, 0x7FF0000000000000, 0x7FD42C8B75A4D24E},
    {DType::kFloat64, {0x0000000000000001, 0x0000000000000001, 0x0000000000000000},
     0x0000000000000001, 0x0000000000000003, 0x0000000000000000},
    {DType::kFloat64, {0x3FF0000000000000, 0x3CA0000000000000, 0x3CA0000000000000},
     0x3FD5555555555555, 0x4008000000000000, 0x3FD5555555555555},
    {DType::kFloat64, {0x4340000000000000, 0x3FF0000000000000, 0x3FF0000000000000},
     0x4325555555555555, 0x4358000000000000, 0x4325555555555555},
    {DType::kFloat64, {0xBFE07722DA865573, 0x3FFBCC54FE1914A9, 0xBFE52A4B2AE82DEB},
     0x3FC7F44FF3AF87F1, 0xBFF8B2B447C9802D, 0xBFC5F42E78B31C99},
    {DType::kFloat64, {0x3FE317A0F665E3BE, 0x3FFDDC341D9B8FBE, 0x3FA5921928BDC9A6},
     0x3FEAB86396B84A9C, 0x3FFCA3717198D59D, 0x3FC974D69DDD2FA8},
    {DType::kFloat64, {0xBFE5874A022FA778, 0x3FAFDE92E981F733, 0xC004A62F9F085451},
     0xBFF105AFE29ECEE1, 0xC000257781A3BD9A, 0xBFCCB462AD94DF4A},
    {DType::kFloat64, {0xBFE9069C7BCFF504, 0xBFE2D32886E9046A, 0x3FED776589E1CC97},
     0xBFC32DD4A11EE674, 0xC002C4F55CDBF7C3, 0xBFD0AF12FD354E02},
    {DType::kFloat64, {0xBFED4E294838544E, 0xBFB920B7B070CB82, 0x3FF1074579EE7063},
     0x3F912DC790EF75AB, 0xC005FA9EF62A3F3B, 0xBFD38970DAD03834},
    {DType::kFloat64, {0xBFE85AE1640EBBBE, 0xBFF7219835A010CE, 0xBFB8A5852274AE45},
     0xBFE890EB7BDF2660, 0xC00244290B0B0CCF, 0xBFD03C9642B47D29},
    {DType::kFloat64, {0xBFF46EA7F99F1783, 0xBFFBDEBEA06D4A2E, 0xBFE2D400994A5848},
     0xBFF33D224CE5D9F1, 0xC00EA5FBF66EA345, 0xBFDB3E354CD41F59},
};
// clang-format on

std::vector<std::byte> Stored(DType dtype, std::uint64_t bits) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(ItemBytes(dtype)));
  std::memcpy(bytes.data(), &bits, bytes.size());  // On little-endian machines, like every checkpoint.
  return bytes;
}

TEST(ArithmeticTest, IsPyTorchs) {
  for (const Case& c : kTable) {
    std::vector<std::byte> mean = Stored(c.dtype, 0);
    for (std::uint64_t term : c.terms) Add(c.dtype, mean, Stored(c.dtype, term));
    Divide(c.dtype, mean, 3);
    EXPECT_EQ(mean, Stored(c.dtype, c.mean)) << Name(c.dtype) << std::hex << " " << c.mean;

    std::vector<std::byte> quotient = Stored(c.dtype, c.terms[0]);
    Divide(c.dtype, quotient, 1.0 / 3);
    EXPECT_EQ(quotient, Stored(c.dtype, c.quotient)) << Name(c.dtype) << std::hex << " " << c.quotient;

    std::vector<std::byte> product = Stored(c.dtype, c.terms[0]);
    Multiply(c.dtype, product, 1.0 / 3);
    EXPECT_EQ(product, Stored(c.dtype, c.product)) << Name(c.dtype) << std::hex << " " << c.product;
  }
}

std::string Outcome(SmallConversion& small, unsigned threads, std::uint64_t chunk_bytes) {
  ScratchFolder folder;
  std::string target = folder.Path("target");
  small.WriteSource(folder.Path("source"));
  std::filesystem::create_directory(target);
  ExecutionOptions options;
  options.threads = threads;
  options.most_chunk_bytes = chunk_bytes;
  auto report = Execute(small.plan(), folder.Path("source"), target, RealFileSystem(), options);
  if (!report) return TakeFailure(report.takeError()).message;
  for (const auto& [path, content] : small.ExpectedFiles()) {
    if (ReadTestFile(target + "/" + path) != content) return path + " is wrong";
  }
  return "right";
}

void ExpectRight(SmallConversion& small) {
  if (llvm::Error error = VerifyPlan(small.plan())) FAIL() << TakeFailure(std::move(error)).message;
  EXPECT_EQ(Outcome(small, 1, 1 << 20), "right");
  EXPECT_EQ(Outcome(small, 1, 16), "right");
  EXPECT_EQ(Outcome(small, 3, 60), "right");
}

// 1e30 + -1e30 + 4 v + 0, a quarter of which is v; added in any other order, v would be lost or another number. Each
// term is cut in its own way, and one has a replica.
SmallConversion FourTerms(float replica_of_the_third) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8, 2}}});
  small.AddSource({.tp = 2, .dp = 2, .term = 0, .times = 0, .plus = 1e30F}, ReadRole::kCopy, "first_");
  small.AddSource({.tp = 1, .dp = 3, .term = 1, .times = 0, .plus = -1e30F}, ReadRole::kCopy, "second_");
  small.AddSource({.tp = 2, .cut_dim = 1, .padding = 2, .term = 2, .times = 4}, ReadRole::kCopy, "third_");
  small.AddSource({.term = 2, .times = replica_of_the_third}, ReadRole::kCompare, "replica_");
  small.AddSource({.term = 3, .times = 0}, ReadRole::kCopy, "fourth_");
  small.SetTarget({.tp = 2, .cut_dim = 1, .padding = 3, .dp = 2});
  for (PlanTensor& tensor : small.plan().tensors) tensor.arithmetic.terms = 4;
  small.Finish();
  return small;
}

TEST(ArithmeticTest, TermsAreAddedInOrderAndDividedByTheirNumber) {
  SmallConversion small = FourTerms(4);
  ExpectRight(small);
}

TEST(ArithmeticTest, AReplicaIsComparedWithItsOwnTerm) {
  SmallConversion small = FourTerms(5);
  EXPECT_THAT(Outcome(small, 1, 1 << 20), HasSubstr("element [0, 0] of `exp_avg` of tensor `a` has two values: "));
  EXPECT_THAT(Outcome(small, 1, 1 << 20), HasSubstr("third_tp0_dp0` and "));
}

// A quarter of each value is stored, and half of it is wanted. Weights are checked against what is stored.
TEST(ArithmeticTest, ScalesAreUndoneAndDone) {
  SmallConversion small({{"a", {6, 4}}, {"b", {8, 2}}}, {"fp32"});
  small.AddSource({.tp = 2, .dp = 2, .times = 0.25F});
  small.AddSource({.times = 0.25F}, ReadRole::kCheckRounding, "weight_");
  small.SetTarget({.dp = 2, .times = 0.5F});
  for (PlanTensor& tensor : small.plan().tensors) {
    tensor.arithmetic.divisor = {1, 4};
    tensor.arithmetic.factor = {1, 2};
  }
  small.Finish();
  ExpectRight(small);
}

}  // namespace
}  // namespace ucp
