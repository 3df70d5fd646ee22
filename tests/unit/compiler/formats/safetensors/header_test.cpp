#include "compiler/formats/safetensors/header.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/safetensors/dtype_codes.h"
#include "compiler/support/error.h"

namespace ucp::safetensors {
namespace {

using ::testing::HasSubstr;

std::string JsonOf(const std::string& composed) { return composed.substr(kLengthBytes); }

// Made by the reference writer, safetensors 0.8.0, of tensors with these names, types and shapes.
constexpr std::string_view kReference =
    "{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
    "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]},"
    "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[24,32]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[32,44]},"
    "\"\xC3\xA4\\\"\\\\\\n\\u0001\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[44,48]},"
    "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[48,60]},"
    "\"e\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[60,60]},"
    "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[60,62]},"
    "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[62,65]},"
    "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[5],\"data_offsets\":[65,70]}}     ";

Header OfTheReference() {
  Header header;
  header.metadata = {{"format", "pt"}};
  header.entries = {{"a", DType::kFloat32, {3}, 0, 0},    {"b.weight", DType::kBFloat16, {2, 3}, 0, 0},
                    {"c", DType::kComplex64, {1}, 0, 0},  {"d", DType::kFloat64, {2}, 0, 0},
                    {"e", DType::kFloat16, {0, 4}, 0, 0}, {"f8", DType::kFloat8E4M3FN, {2}, 0, 0},
                    {"flag", DType::kBool, {5}, 0, 0},    {"u", DType::kUInt8, {3}, 0, 0},
                    {"z", DType::kInt64, {}, 0, 0},       {"\xC3\xA4\"\\\n\x01", DType::kFloat32, {1}, 0, 0}};
  Arrange(header);
  return header;
}

// But for the number of blanks: the elements begin with a page.
TEST(SafetensorsHeaderTest, IsComposedAsTheReferenceWriterDoes) {
  std::string bytes = ComposeHeader(OfTheReference());
  EXPECT_EQ(bytes.size(), 4096U);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\xF8\x0F\0\0\0\0\0\0", 8));  // 4088
  EXPECT_EQ(JsonOf(bytes), std::string(kReference) + std::string(4088 - kReference.size(), ' '));
}

TEST(SafetensorsHeaderTest, ComesBack) {
  auto header = ParseHeader(kReference, 70);
  ASSERT_TRUE(static_cast<bool>(header)) << TakeFailure(header.takeError()).message;
  EXPECT_EQ(*header, OfTheReference());
}

TEST(SafetensorsHeaderTest, NothingIsAModelToo) {
  Header header;
  EXPECT_EQ(JsonOf(ComposeHeader(header)), "{}" + std::string(4086, ' '));
  EXPECT_TRUE(static_cast<bool>(ParseHeader("{}", 0)));
}

TEST(SafetensorsHeaderTest, EveryTypeHasItsCode) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat8E5M2FNUZ); ++i) {
    auto dtype = static_cast<DType>(i);
    std::optional<std::string_view> code = CodeOf(dtype);
    EXPECT_EQ(code.has_value(), dtype != DType::kComplex128) << Name(dtype);
    if (code) {
      EXPECT_EQ(DTypeOfCode(*code), dtype);
    }
  }
}

// A header with one tensor of these fields, of a file with 8 bytes of elements.
std::string One(const std::string& fields) { return fmt::format("{{\"a\":{{{}}}}}", fields); }
constexpr const char* kGood = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

std::string Refusal(const std::string& json, std::uint64_t data_bytes = 8) {
  auto header = ParseHeader(json, data_bytes);
  return header ? "accepted" : TakeFailure(header.takeError()).message;
}

TEST(SafetensorsHeaderTest, WhatIsWrongIsSaid) {
  ASSERT_EQ(Refusal(One(kGood)), "accepted");
  ASSERT_EQ(Refusal(One(kGood) + "   "), "accepted");
  struct Case {
    std::string json;
    const char* words;
  };
  const std::string tensor = fmt::format("{{{}}}", kGood);
  const std::vector<Case> cases = {
      {"", "does not begin with `{`"},
      {" {}", "does not begin with `{`"},
      {"[]", "does not begin with `{`"},
      {"{", "ends where a text should stand"},
      {One(kGood) + "x", "at byte 54 of it the end should stand"},
      {"{\"a\":" + tensor + ",\"a\":" + tensor + "}", "it has the key `a` twice"},
      {"{\"a\xFF\":" + tensor + "}", "it is not UTF-8"},
      {"{\"a\\ud800\":" + tensor + "}", "the second half of a character"},
      {"{\"a\n\":" + tensor + "}", "no control character"},
      {"{\"a\\x\":" + tensor + "}", "an escape that JSON knows"},
      {R"({"__metadata__":{"format":1}})", "`__metadata__`: at byte 26 of it a text should stand"},
      {R"({"__metadata__":["pt"]})", "an object should stand"},
      {One(R"("dtype":"F32","shape":[2])"), "tensor `a`: it lacks one of"},
      {One(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1])"), "it has the field `strides`"},
      {One(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), "it has the key `dtype` twice"},
      {One(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), "its type `F33` is none that the format has"},
      {One(R"("dtype":"F4","shape":[16],"data_offsets":[0,8])"), "its type `F4` is not one that this version holds"},
      {One(R"("dtype":1,"shape":[2],"data_offsets":[0,8])"), "a text should stand"},
      {One(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "an array should stand"},
      {One(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[02],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[2e0],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "a size: digits, below 2^63"},
      {One(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"),
       "tensor `a` is [] of float32 and lies from byte 0 to 8"},
      {One(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "lies from byte 8 to 0"},
      {One(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "it has 1 `data_offsets`, and not two"},
      {One(R"("dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8])"),
       "is [1099511627776, 1099511627776] of float32"},
      {One(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "begins at byte 4, and what is before it ends at 0"},
      {One(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "its tensors have 4 bytes, and 8 follow it"},
      {One(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"), "its tensors have 12 bytes, and 8 follow it"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
       "tensor `b` begins at byte 3, and what is before it ends at 4"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "tensor `b` begins at byte 4, and what is before it ends at 3"},
      {"{\"a\":" + std::string(100000, '[') + "}", "tensor `a`: at byte 5 of it an object should stand"},
      {R"({"a":{"shape":)" + std::string(100000, '['), "a size: digits, below 2^63"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.json), HasSubstr(c.words)) << c.json.substr(0, 200);
}

TEST(SafetensorsHeaderTest, AnEmptyTensorMayStandAnywhere) {
  EXPECT_EQ(Refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
                    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "accepted");
}

// Whatever is cut off or flipped: a sentence, or a header that holds the rules.
TEST(SafetensorsHeaderTest, DamageIsNoCrash) {
  const std::string good(kReference);
  for (std::size_t i = 0; i < good.size(); ++i) {
    bool lacks_padding_only = i > good.rfind('}');
    EXPECT_EQ(Refusal(good.substr(0, i), 70) == "accepted", lacks_padding_only) << i;
    for (int bit : {1, 4, 32, 127}) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ bit);
      (void)Refusal(flipped, 70);
    }
  }
}

}  // namespace
}  // namespace ucp::safetensors
