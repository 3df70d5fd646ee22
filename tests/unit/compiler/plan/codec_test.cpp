// The plan file: equal plans have equal bytes, and whatever is wrong with the bytes is refused with a sentence.
#include "compiler/plan/codec.h"

#include <gmock/gmock.h>
#include <plan_generated.h>

#include <chrono>
#include <cstring>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"
#include "tests/unit/compiler/verifier/mutation.h"

namespace ucp::oracle {
namespace {

using testing::HasSubstr;

constexpr std::size_t kEnvelope = 24;  // Magic with version, length, checksum: eight bytes each.

Plan SmallPlan() {
  ShapeExpr rows = ShapeExpr::Cut(ShapeExpr::Length(4), {"tp"});
  auto compiled = Compile({{{{rows}, {}}}, {{{ShapeExpr::Length(4)}, {}}}, {{{{"tp", 2}}}}, {}});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  compiled->plan.remarks = {"a remark"};
  compiled->plan.source.records[0].crc32 = 7;
  return std::move(compiled->plan);
}

std::string Encoded(const Plan& plan) { return llvm::cantFail(EncodePlan(plan)); }

std::string WithChecksum(std::string bytes) {
  std::uint64_t header[2] = {bytes.size() - kEnvelope, ContentHash64(std::string_view(bytes).substr(kEnvelope))};
  std::memcpy(bytes.data() + 8, header, sizeof(header));
  return bytes;
}

std::string Refusal(std::string_view bytes) {
  auto plan = DecodePlan(bytes);
  return plan ? "accepted" : TakeFailure(plan.takeError()).message;
}

TEST(CodecTest, RoundTripsToTheSameBytes) {
  Random random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    Conversion conversion = i % 2 == 0 ? RandomConversion(random) : RandomFusedConversion(random);
    AverageSome(conversion, random);
    auto compiled = Compile(conversion);
    if (!compiled) {
      llvm::consumeError(compiled.takeError());
      continue;
    }
    std::string bytes = Encoded(compiled->plan);
    EXPECT_EQ(bytes, Encoded(compiled->plan));
    auto decoded = DecodePlan(bytes);
    ASSERT_TRUE(static_cast<bool>(decoded)) << TakeFailure(decoded.takeError()).message;
    ASSERT_EQ(bytes, Encoded(*decoded));
    EXPECT_EQ(decoded->source, compiled->plan.source);
    EXPECT_EQ(decoded->sets, compiled->plan.sets);
    EXPECT_EQ(decoded->geometries, compiled->plan.geometries);
    for (std::size_t w = 0; w < decoded->writes.size(); ++w) {
      EXPECT_EQ(decoded->writes[w].pieces, compiled->plan.writes[w].pieces);
      EXPECT_EQ(decoded->writes[w].fused, compiled->plan.writes[w].fused);
    }
    EXPECT_EQ(decoded->source_mesh, compiled->plan.source_mesh);
  }
}

// A manifest names a plan by its hash: the next version of this program has the same name for the same plan.
TEST(CodecTest, BytesStayWhatTheyAre) {
  Plan plan = SmallPlan();
  plan.tool_version = "0";
  plan.decisions = {{"`lr`", "0.5", "a.pt", "0.25", "b.pt", 0}, {"`step`", "1", "a.pt", "2", "b.pt", 7}};
  EXPECT_EQ(ContentHash(Encoded(plan)), "f4592bbf527aa4b716abc943718ea0d7");
}

TEST(CodecTest, KeepsEveryField) {
  Plan plan = SmallPlan();
  plan.tensors[0].arithmetic = {4, {1, 3}, {5, 7}, -1};
  plan.reads[1].term = 3;
  plan.reads[1].is_overruled = true;
  plan.preference.named.at = {{"dp", 1}, {"tp", 0}};
  plan.decisions = {{"`lr`", "0.5", "a.pt", "0.25", "b.pt", 0}, {"element [3]", "1", "c", "2", "d", 7}};
  plan.readers = {4, {{0, 3}, {}, {1}}, {2, 0, 1}};
  Plan decoded = llvm::cantFail(DecodePlan(Encoded(plan)));
  EXPECT_EQ(decoded.readers, plan.readers);
  EXPECT_EQ(decoded.tensors[0].arithmetic, plan.tensors[0].arithmetic);
  EXPECT_EQ(decoded.reads[0].term, 0);
  EXPECT_EQ(decoded.reads[1].term, 3);
  EXPECT_FALSE(decoded.reads[0].is_overruled);
  EXPECT_TRUE(decoded.reads[1].is_overruled);
  EXPECT_EQ(decoded.preference, plan.preference);
  EXPECT_EQ(decoded.decisions, plan.decisions);
  EXPECT_EQ(decoded.remarks, plan.remarks);
  EXPECT_EQ(decoded.spec_hash, "spec");
  EXPECT_EQ(decoded.source_format, "oracle");
  EXPECT_EQ(decoded.tool_version, plan.tool_version);
  EXPECT_EQ(decoded.directories, plan.directories);
  EXPECT_EQ(decoded.blobs, plan.blobs);
  EXPECT_EQ(decoded.placements, plan.placements);
  EXPECT_EQ(decoded.crc_fields, plan.crc_fields);
  EXPECT_EQ(decoded.target, plan.target);
  EXPECT_EQ(decoded.source.records[0].crc32, 7u);
  EXPECT_EQ(decoded.source.records[1].crc32, std::nullopt);
  EXPECT_EQ(decoded.tensors[0].declared_at, "oracle.ucp:1");
  EXPECT_EQ(decoded.reads[1].coordinate, plan.reads[1].coordinate);
  EXPECT_EQ(decoded.tensors[0].logical.states, plan.tensors[0].logical.states);
}

// Programs that know no offsets would leave them out.
TEST(CodecTest, OffsetsAreOfVersion4) {
  Plan plan = SmallPlan();
  plan.tensors[0].arithmetic.offset = 3;
  std::string bytes = Encoded(plan);
  EXPECT_EQ(bytes[7], 4);
  EXPECT_EQ(llvm::cantFail(DecodePlan(bytes)).tensors[0].arithmetic.offset, 3);
  bytes[7] = 3;
  EXPECT_THAT(Refusal(bytes), HasSubstr("it has version 3, and offsets"));
}

TEST(CodecTest, KeepsWhatThePlanWasMadeFrom) {
  const PlanInputs inputs{.source_strategy = "deepspeed:tp=2",
                          .target = "universal:mp=2",
                          .spec = {{"gpt.ucp", "ucp 1\n"}, {"parts/block.ucp", "ucp 1\nlayout x {}\n"}},
                          .config = NamedText{"config.json", "{}"},
                          .ds_config = NamedText{"ds.json", "{\"a\": 1}"},
                          .set = {"layers=4", "tied=true"},
                          .unused = {"w=last"},
                          .drop_states = {"absmax"},
                          .keep_opaque = {"a.B"},
                          .tag = "other",
                          .trusts_replicas = true};
  const Plan plan = SmallPlan();
  const std::string bytes = llvm::cantFail(EncodePlan(plan, &inputs));
  const PlanWithInputs decoded = llvm::cantFail(DecodePlanWithInputs(bytes));
  EXPECT_EQ(decoded.inputs, inputs);
  EXPECT_EQ(Encoded(decoded.plan), Encoded(plan));
  EXPECT_EQ(Encoded(llvm::cantFail(DecodePlan(bytes))), Encoded(plan));
  EXPECT_EQ(llvm::cantFail(DecodePlanWithInputs(Encoded(plan))).inputs, std::nullopt);
}

// A plan's name is the same whatever it was asked by.
TEST(CodecTest, HashLeavesInputsOut) {
  const Plan plan = SmallPlan();
  EXPECT_EQ(llvm::cantFail(HashOfPlan(plan)), ContentHash(Encoded(plan)));
}

// Plans of files that every rank of any job opens are the same bytes whether or not that was asked.
TEST(CodecTest, ThatEveryRankOpensAllNeedNotBeSaid) {
  Plan plan = SmallPlan();
  const std::string bytes = Encoded(plan);
  plan.readers = ReadByAll(plan.target.files.size());
  EXPECT_EQ(Encoded(plan), bytes);
  EXPECT_EQ(llvm::cantFail(DecodePlan(bytes)).readers, FileReaders());
}

// A text that a thousand rows share is read a thousand times.
TEST(CodecTest, RowsDoNotShareLongTexts) {
  auto make = [](std::size_t times) {
    flatbuffers::FlatBufferBuilder builder;
    const auto text = builder.CreateString(std::string(100'000, 'x'));
    const auto remarks = builder.CreateVector(std::vector(times, text));
    flat::PlanBuilder plan(builder);
    plan.add_remarks(remarks);
    builder.Finish(plan.Finish());
    const std::string buffer(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
    return WithChecksum(std::string(Encoded(SmallPlan()), 0, kEnvelope) + buffer);
  };
  EXPECT_EQ(Refusal(make(10)), "accepted");
  EXPECT_THAT(Refusal(make(1000)), HasSubstr("its rows share texts"));
}

// Thousands of sets that share one list of thousands of ranks are a small file and much memory.
TEST(CodecTest, SetsOfRanksDoNotShareLists) {
  auto make = [](std::size_t times) {
    flatbuffers::FlatBufferBuilder builder;
    const auto set = flat::CreateRankSet(builder, builder.CreateVector(std::vector<std::int32_t>(1000)));
    const auto sets = builder.CreateVector(std::vector(times, set));
    const auto readers = flat::CreateFileReaders(builder, 1000, sets);
    flat::PlanBuilder plan(builder);
    plan.add_readers(readers);
    builder.Finish(plan.Finish());
    const std::string buffer(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
    return WithChecksum(std::string(Encoded(SmallPlan()), 0, kEnvelope) + buffer);
  };
  EXPECT_EQ(Refusal(make(1)), "accepted");
  EXPECT_THAT(Refusal(make(1000)), HasSubstr("its tables share rows"));
}

TEST(CodecTest, TheEnvelopeIsChecked) {
  std::string bytes = Encoded(SmallPlan());
  std::string other = bytes;
  other[0] = 'X';
  EXPECT_EQ(Refusal(other),
            "this is not a sound plan file: it does not begin with `UCPPLAN`; make it again with `ucpc plan`");
  other = bytes;
  other[7] = 5;
  EXPECT_THAT(Refusal(other), HasSubstr("it has version 5, and this program knows versions 1 to 4"));
  EXPECT_THAT(Refusal(bytes + "x"), HasSubstr("bytes follow, and"));
  other = bytes;
  other[16] = static_cast<char>(other[16] ^ 1);
  EXPECT_THAT(Refusal(other), HasSubstr("its checksum does not match its content"));
  EXPECT_THAT(Refusal(""), HasSubstr("does not begin with"));
}

// Two tensors in one record, each with an order of its own.
Plan FusedPlan() {
  Strategy fused;
  fused.fuse = 3;
  const TensorCut cut{{ShapeExpr::Length(3), ShapeExpr::Length(2)}};
  auto compiled = Compile({{cut, cut}, {cut, cut}, {}, fused});
  if (!compiled) ADD_FAILURE() << TakeFailure(compiled.takeError()).message;
  if (!compiled->plan.writes[0].fused) ADD_FAILURE() << "the seed fuses nothing";
  return std::move(compiled->plan);
}

// A program that knows version 1 alone would take the shard for a whole tensor.
TEST(CodecTest, FusedShardsAreVersionTwo) {
  Plan plan = FusedPlan();
  plan.writes[0].fused = FusedTensor{"qkv", {3, 4}, true};
  plan.writes[0].pieces[1] = {TensorId(1), SetId(0), 7, {5, 2}};
  std::string bytes = Encoded(plan);
  EXPECT_EQ(bytes[7], 2);
  EXPECT_EQ(Encoded(SmallPlan())[7], 1);
  const Plan decoded = llvm::cantFail(DecodePlan(bytes));
  EXPECT_EQ(decoded.writes[0].fused, plan.writes[0].fused);
  EXPECT_EQ(decoded.writes[0].pieces, plan.writes[0].pieces);
  EXPECT_EQ(decoded.writes[0].base, plan.writes[0].base);
  EXPECT_EQ(decoded.writes[0].states, plan.writes[0].states);
  bytes[7] = 1;
  EXPECT_EQ(Refusal(bytes),
            "this is not a sound plan file: it has version 1, and fused shards; make it again with `ucpc plan`");
  EXPECT_EQ(llvm::cantFail(HashOfPlan(plan)), ContentHash(Encoded(plan)));
}

// A program that knows no more than version 2 would take the shard for a whole tensor of the target's own.
TEST(CodecTest, PartsOfTensorsOfTheTargetAreVersionThree) {
  Plan plan = FusedPlan();
  plan.writes[0].fused = FusedTensor{"qkv", {3, 4}, true, PartOfOwn{{6, 4}, {SetId(0), SetId(0)}}};
  std::string bytes = Encoded(plan);
  EXPECT_EQ(bytes[7], 3);
  EXPECT_EQ(llvm::cantFail(DecodePlan(bytes)).writes[0].fused, plan.writes[0].fused);
  bytes[7] = 2;
  EXPECT_EQ(
      Refusal(bytes),
      "this is not a sound plan file: it has version 2, and parts of the target's own tensors; make it again with "
      "`ucpc plan`");
}

TEST(CodecTest, BytesMayStandAnywhereInMemory) {
  std::string bytes = Encoded(SmallPlan());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::string moved = std::string(shift, ' ') + bytes;
    auto plan = DecodePlan(std::string_view(moved).substr(shift));
    ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
    EXPECT_EQ(Encoded(*plan), bytes);
  }
}

TEST(CodecTest, EveryTruncationIsRefused) {
  std::string bytes = Encoded(SmallPlan());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(Refusal(std::string_view(bytes).substr(0, size)), HasSubstr("not a sound plan file")) << size;
  }
}

TEST(CodecTest, EveryFlippedBitIsRefused) {
  std::string bytes = Encoded(SmallPlan());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ (1 << at % 8));
    ASSERT_THAT(Refusal(other), HasSubstr("not a sound plan file")) << at;
  }
}

// Whoever fixes the checksum too gets past it: what then decodes and verifies must do what it says.
std::string WrongIfAccepted(const std::string& bytes) {
  auto plan = DecodePlan(WithChecksum(bytes));
  if (!plan) {
    std::string message = TakeFailure(plan.takeError()).message;
    return message.starts_with("this is not a sound plan file: ") ? "" : message;
  }
  bool refused = false;
  return WronglyAccepted(*plan, refused);
}

TEST(CodecTest, TruncationsWithAFixedChecksum) {
  std::string bytes = Encoded(SmallPlan());
  for (std::size_t size = kEnvelope; size < bytes.size(); ++size) {
    ASSERT_EQ(WrongIfAccepted(bytes.substr(0, size)), "") << size;
  }
}

TEST(CodecTest, EveryByteChangedWithAFixedChecksum) {
  std::string bytes = Encoded(SmallPlan());
  for (std::size_t at = kEnvelope; at < bytes.size(); ++at) {
    for (int change : {0x01, 0x80, 0xff}) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ change);
      ASSERT_EQ(WrongIfAccepted(other), "") << "byte " << at << " ^ " << change;
    }
  }
}

TEST(CodecTest, EveryByteOfAFusedPlanChangedWithAFixedChecksum) {
  const std::string bytes = Encoded(FusedPlan());
  for (std::size_t at = kEnvelope; at < bytes.size(); ++at) {
    for (int change : {0x01, 0x03, 0x80, 0xff}) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ change);
      ASSERT_EQ(WrongIfAccepted(other), "") << "byte " << at << " ^ " << change;
    }
  }
}

TEST(CodecTest, Fuzz) {
  std::uint64_t seed = TestSeed();
  std::printf("seed %llu; set UCP_TEST_SEED and UCP_TEST_SECONDS to try more\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  std::string bytes = Encoded(SmallPlan());
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(TestSeconds());
  while (std::chrono::steady_clock::now() < end) {
    std::string other = bytes;
    for (std::int64_t n = Pick(random, 1, 6); n > 0; --n) {
      auto at = static_cast<std::size_t>(Pick(random, kEnvelope, std::ssize(other) - 1));
      other[at] = static_cast<char>(Pick(random, 0, 3) == 0 ? Pick(random, 0, 255) : other[at] + Pick(random, -2, 2));
    }
    ASSERT_EQ(WrongIfAccepted(other), "");
  }
}

}  // namespace
}  // namespace ucp::oracle
