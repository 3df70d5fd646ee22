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
  manifest.states = {{"w\"\n", "fp32", DType::kFloat32, {{2, 3}}, "ee", DType::kFloat32, ""},
                     {"x", "weight", DType::kBFloat16, {{}}, "ff", DType::kFloat32, "00"}};
  return manifest;
}

std::string ErrorOf(const std::string& json) {
  auto manifest = ParseManifest(json);
  return manifest ? "no error" : TakeFailure(manifest.takeError()).message;
}

TEST(ManifestTest, IsReadAsItWasWritten) {
  auto read = ParseManifest(ComposeManifest(Some()));
  ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
  EXPECT_EQ(*read, Some());
  EXPECT_EQ(ComposeManifest(*read), ComposeManifest(Some()));
}

TEST(ManifestTest, NothingIsAListToo) {
  Manifest empty;
  auto read = ParseManifest(ComposeManifest(empty));
  ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
  EXPECT_EQ(*read, empty);
}

TEST(ManifestTest, KeysOfLaterVersionsArePassedOver) {
  auto read = ParseManifest(
      R"({"ucp_manifest": 1, "new": {"x": [1, null]}, "files": [{"path": "a", "bytes": 3, "digest": "d", "mode": 4}]})");
  ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
  EXPECT_EQ(read->files, (std::vector<ManifestFile>{{"a", 3, "d"}}));
}

TEST(ManifestTest, WhatIsNoManifestIsRefused) {
  EXPECT_EQ(ErrorOf("{}"), "it is a manifest of version 0, and this program knows versions 1 to 4");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 5})"), "it is a manifest of version 5, and this program knows versions 1 to 4");
  EXPECT_EQ(ErrorOf("\xff"), "it is not UTF-8");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 3, "files": [{"path": "a", "bytes": 3, "digest": "ab\""}]})"),
            "`ab\"` is not a digest");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 3, "states": [{"digest": "0A"}]})"), "`0A` is not a digest");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 3, "states": [{"source_digest": "\f"}]})"), "`\f` is not a digest");
  EXPECT_EQ(ErrorOf(R"({"ucp_manifest": 1, "states": [{"dtype": "float33"}]})"), "`float33` is not a dtype");
  for (const char* path : {"", "/etc/passwd", "../a", "a/../../b", "..", "a\\u0000b"}) {
    std::string json = std::string(R"({"ucp_manifest": 1, "files": [{"path": ")") + path + "\"}]}";
    EXPECT_NE(ErrorOf(json).find("not a path inside the checkpoint"), std::string::npos) << path;
  }
  EXPECT_NE(ErrorOf(ComposeManifest(Some()) + "x"), "no error");
  std::string whole = ComposeManifest(Some());
  for (std::size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {
    EXPECT_NE(ErrorOf(whole.substr(0, bytes)), "no error") << bytes;
  }
}

Manifest SomePart(int number, int count) {
  Manifest manifest = Some();
  manifest.part = {number, count, "0123"};
  manifest.files[0].parts = {1, count};
  return manifest;
}

TEST(ManifestTest, PartsAreReadAsTheyWereWrittenAndEquallyLong) {
  for (int number : {1, 9, 10, 12}) {
    auto read = ParseManifest(ComposeManifest(SomePart(number, 12)));
    ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
    EXPECT_EQ(*read, SomePart(number, 12));
    EXPECT_EQ(ComposeManifest(*read).size(), ComposeManifest(SomePart(1, 12)).size());
  }
}

TEST(ManifestTest, PartsThatCannotBeAreRefused) {
  const std::string text = ComposeManifest(SomePart(2, 3));
  auto with = [&](const std::string& old, const std::string& wrong) {
    std::string changed = text;
    const std::size_t at = changed.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return ErrorOf(changed.replace(at, old.size(), wrong));
  };
  EXPECT_EQ(with("\"part\": 2", "\"part\": 0"), "0 is not a valid number of a part");
  EXPECT_EQ(with("\"part\": 2", "\"part\": 4"), "it is of version 4, of part 4 of 3, and of the run `0123`");
  EXPECT_EQ(with("\"part\": 2", "\"past\": 2"), "it is of version 4, of part 0 of 3, and of the run `0123`");
  EXPECT_EQ(with("0123", ""), "it is of version 4, of part 2 of 3, and of the run ``");
  EXPECT_EQ(with("manifest\": 4", "manifest\": 3"), "it is of version 3, of part 2 of 3, and of the run `0123`");
  EXPECT_EQ(with("[1, 3]", "[1, 4]"), "`a/b.pt` is in part 4, behind 1, of 3");
  EXPECT_EQ(with("[1, 3]", "[3, 3]"), "`a/b.pt` is in part 3, behind 3, of 3");
}

TEST(ManifestTest, WhatIsNoTextIsReplaced) {
  Manifest manifest = Some();
  manifest.states[0].tensor = "w\xff";
  auto read = ParseManifest(ComposeManifest(manifest));
  ASSERT_TRUE(static_cast<bool>(read)) << TakeFailure(read.takeError()).message;
  EXPECT_EQ(read->states[0].tensor, "w\xEF\xBF\xBD");
}

}  // namespace
}  // namespace ucp
