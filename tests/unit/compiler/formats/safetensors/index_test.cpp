#include "compiler/formats/safetensors/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp::safetensors {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& json) {
  auto index = ParseIndex(json);
  return index ? "accepted" : TakeFailure(index.takeError()).message;
}

TEST(SafetensorsIndexTest, IsComposedAsHuggingFaceDoes) {
  Index index{24, {{"b", "model-00002-of-00002.safetensors"}, {"a", "model-00001-of-00002.safetensors"}}};
  std::string json = ComposeIndex(index);
  EXPECT_EQ(
      json,
      "{\n  \"metadata\": {\n    \"total_size\": 24\n  },\n  \"weight_map\": {\n"
      "    \"a\": \"model-00001-of-00002.safetensors\",\n    \"b\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
  auto back = ParseIndex(json);
  ASSERT_TRUE(static_cast<bool>(back));
  EXPECT_EQ(back->file_of_tensor, index.file_of_tensor);
}

TEST(SafetensorsIndexTest, MetadataCanBeAnything) {
  EXPECT_EQ(Refusal(R"({"metadata":{"total_size":1e3,"x":[null,true,{"y":-0.5}]},"weight_map":{},"more":"x"})"),
            "accepted");
}

TEST(SafetensorsIndexTest, WhatIsWrongIsSaid) {
  for (const char* name : {"../x", "a/b", "/etc/passwd", "..", ".", "", "a\\\\b", "a\\u0000b"}) {
    EXPECT_THAT(Refusal(std::string(R"({"weight_map":{"t":")") + name + "\"}}"),
                HasSubstr("is not the name of a file beside it"))
        << name;
  }
  EXPECT_EQ(Refusal("{}"), "it has no `weight_map`");
  EXPECT_THAT(Refusal("[]"), HasSubstr("an object should stand"));
  EXPECT_THAT(Refusal(R"({"weight_map":{"a":"x","a":"y"}})"), HasSubstr("it has the key `a` twice"));
  EXPECT_THAT(Refusal(R"({"weight_map":{"a":1}})"), HasSubstr("a text should stand"));
  EXPECT_THAT(Refusal("{\"weight_map\":{\"a\":\"\xFF\"}}"), HasSubstr("it is not UTF-8"));
  EXPECT_THAT(Refusal("{\"metadata\":" + std::string(1000000, '[')), HasSubstr("nested less deep"));
  EXPECT_THAT(Refusal(R"({"metadata":,"weight_map":{}})"), HasSubstr("a value should stand"));
}

}  // namespace
}  // namespace ucp::safetensors
