#include "runtime/manifest/manifest.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

Manifest Some() {
  Manifest manifest;
  manifest.tool = "ucp 1";
  manifest.format = "universal";
  manifest.plan = "aa";
  manifest.source_format = "deepspeed";
  manifest.source = "bb";
  manifest.files = {{"a/b.pt", 12, "cc"}, {"latest", 0, "dd"}};
  manifest.states = {{"w\"\n", "fp32", DType::kFloat32, "ee", DType::kFloat32, ""},
                     {"x", "weight", DType::kBFloat16, "ff", DType::kFloat32, "00"}};
  return manifest;
}

std::string ErrorOf(const std::string& json) {
  auto manifest = ParseManifest(json);
  return manifest ? "no error" : Describe(manifest.takeError()).message;
}

TEST(ManifestTest, IsReadAsItWasWritten) {
  auto read = ParseManifest(ComposeManifest(Some()));
  ASSERT_TRUE(static_cast<bool>(read)) << Describe(read.takeError()).message;
  EXPECT_EQ(*read, Some());
  EXPECT_EQ(ComposeManifest(*read), ComposeManifest(Some()));
}

TEST(ManifestTest, NothingIsAListToo) {
  Manifest empty;
  auto read = ParseManifest(ComposeManifest(empty));
  ASSERT_TRUE(static_cast<bool>(read)) << Describe(read.takeError()).message;
  EXPECT_EQ(*read, empty);
}

TEST(ManifestTest, KeysOfLaterVersionsArePassedOver) {
  auto read = ParseManifest(
      R"({"ucp_manifest": 1, "new": {"x": [1, null]}, "files": [{"path": "a", "bytes": 3, "digest": "d", "mode": 4}]})");
  ASSERT_TRUE(static_cast<bool>(read)) << Describe(read.takeError()).message;
  EXPECT_EQ(read->files, (std::vector<ManifestFile>{{"a", 3, "d"}}));
}

TEST(ManifestTest, WhatIsNoManifestIsRefused) {
  EXPECT_EQ(ErrorOf("{}"), "it is a manifest of version 0, and this program knows version 1");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 2})"), "it is a manifest of version 2, and this program knows version 1");
  EXPECT_EQ(ErrorOf("\xff"), "it is not UTF-8");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 1, "states": [{"dtype": "float33"}]})"), "`float33` is no dtype");
  for (const char* path : {"", "/etc/passwd", "../a", "a/../../b", "..", "a\\u0000b"}) {
    std::string json = std::string(R"({"ucp_manifest": 1, "files": [{"path": ")") + path + "\"}]}";
    EXPECT_NE(ErrorOf(json).find("no path inside the checkpoint"), std::string::npos) << path;
  }
  EXPECT_NE(ErrorOf(ComposeManifest(Some()) + "x"), "no error");
  std::string whole = ComposeManifest(Some());
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {
    EXPECT_NE(ErrorOf(whole.substr(0, bytes)), "no error") << bytes;
  }
}

TEST(ManifestTest, WhatIsNoTextIsReplaced) {
  Manifest manifest = Some();
  manifest.states[0].tensor = "w\xff";
  auto read = ParseManifest(ComposeManifest(manifest));
  ASSERT_TRUE(static_cast<bool>(read)) << Describe(read.takeError()).message;
  EXPECT_EQ(read->states[0].tensor, "w\xEF\xBF\xBD");
}

}  // namespace
}  // namespace ucp
