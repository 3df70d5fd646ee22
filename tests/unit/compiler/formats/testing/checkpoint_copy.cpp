#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/archive/archive_writer.h"
#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/support/checksum.h"
#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp::testing {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  EXPECT_TRUE(file.good()) << path;
}

void PutCrc32(std::string& content, std::uint64_t offset, std::uint32_t crc32) {
  for (std::uint64_t i = 0; i < 4; ++i) content[offset + i] = static_cast<char>(crc32 >> (8 * i) & 0xff);
}

std::string TagIn(const std::string& root) { return ReadFile(root + "/latest"); }

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "ucp-formats-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

CheckpointCopy::CheckpointCopy(const std::string& fixture)
    : CheckpointCopy(FixtureRoot(fixture), TagIn(FixtureRoot(fixture))) {}

CheckpointCopy::CheckpointCopy(const std::string& root, const std::string& tag) : tag_(tag) {
  fs::copy(root, this->root(), fs::copy_options::recursive);
}

void CheckpointCopy::Remove(const std::string& file) { EXPECT_GT(fs::remove_all(folder() + "/" + file), 0u) << file; }

void CheckpointCopy::Rename(const std::string& from, const std::string& to) {
  fs::rename(folder() + "/" + from, folder() + "/" + to);
}

void CheckpointCopy::Copy(const std::string& from, const std::string& to) {
  fs::copy_file(folder() + "/" + from, folder() + "/" + to);
}

void CheckpointCopy::Truncate(const std::string& file, std::uint64_t bytes) {
  ASSERT_GT(fs::file_size(folder() + "/" + file), bytes);
  fs::resize_file(folder() + "/" + file, bytes);
}

void CheckpointCopy::Write(const std::string& file, const std::string& content) {
  WriteFile(folder() + "/" + file, content);
}

void CheckpointCopy::MakeFolder(const std::string& name) { fs::create_directories(folder() + "/" + name); }

void CheckpointCopy::Edit(const std::string& file,
                          const std::function<pytorch::ValuePtr(const pytorch::ValuePtr&)>& change) {
  const std::string path = folder() + "/" + file;
  const std::string old = ReadFile(path);
  auto readable = RealFiles().OpenForReading(path);
  ASSERT_TRUE(static_cast<bool>(readable));
  auto archive = pytorch::ReadArchive(**readable);
  ASSERT_TRUE(static_cast<bool>(archive));
  std::vector<pytorch::StorageToWrite> storages(archive->storages.size());
  std::vector<std::string> contents(storages.size());
  for (const auto& [key, extent] : archive->storages) {
    std::size_t place = 0;
    std::from_chars(key.data(), key.data() + key.size(), place);
    ASSERT_LT(place, storages.size());
    storages[place] = {extent.storage->dtype, extent.data.bytes};
    contents[place] = old.substr(extent.data.offset, extent.data.bytes);
  }
  pytorch::ArchiveLayout layout =
      pytorch::LayOutArchiveAround("archive", pytorch::WritePickle(*change(archive->root())), storages);
  std::string content(layout.bytes, '\0');
  for (const pytorch::Blob& blob : layout.blobs) content.replace(blob.offset, blob.bytes.size(), blob.bytes);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    content.replace(layout.storages[i].offset, contents[i].size(), contents[i]);
    for (std::uint64_t offset : layout.storages[i].crc32_offsets) PutCrc32(content, offset, Crc32(contents[i]));
  }
  WriteFile(path, content);
}

void CheckpointCopy::Set(const std::string& file, const std::vector<std::string>& path,
                         const pytorch::ValuePtr& value) {
  Edit(file, [&](const pytorch::ValuePtr& root) { return Replaced(root, path, value); });
}

pytorch::ValuePtr Replaced(const pytorch::ValuePtr& root, std::span<const std::string> path,
                           const pytorch::ValuePtr& value) {
  if (path.empty()) return value;
  if (const auto* items = pytorch::Items(*root)) {
    std::vector<pytorch::ValuePtr> changed = *items;
    pytorch::ValuePtr& item = changed.at(std::stoul(path.front()));
    item = Replaced(item, path.subspan(1), value);
    return pytorch::MakeList(std::move(changed));
  }
  std::vector<pytorch::Entry> entries = *pytorch::Entries(*root);
  bool is_found = false;
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    const bool is_number = pytorch::AsInteger(*entry->key) && path.front() == pytorch::Print(*entry->key);
    if (pytorch::AsText(*entry->key) != path.front() && !is_number) continue;
    is_found = true;
    if (value == nullptr && path.size() == 1) {
      entries.erase(entry);
      break;
    }
    entry->value = Replaced(entry->value, path.subspan(1), value);
  }
  EXPECT_TRUE(is_found || path.size() == 1) << path.front();
  if (!is_found && value != nullptr) entries.push_back({pytorch::MakeText(path.front()), value});
  if (pytorch::IsOrderedDict(*root)) return pytorch::MakeOrderedDict(std::move(entries));
  return pytorch::MakeDict(std::move(entries));
}

void WriteTarget(const TargetFiles& target, const std::string& folder) {
  fs::create_directories(folder);
  for (const std::string& directory : target.directories) fs::create_directory(folder + "/" + directory);
  std::vector<std::string> contents;
  for (const StoredFile& file : target.storage.files) contents.emplace_back(file.bytes, '\0');
  for (const BlobPlacement& placement : target.placements) {
    const std::string& blob = target.blobs[placement.blob.index()];
    contents[placement.file.index()].replace(placement.offset, blob.size(), blob);
  }
  for (const Record& record : target.storage.records) {
    for (std::uint64_t i = 0; i < record.bytes; ++i) {
      contents[record.file.index()][record.begin + i] = static_cast<char>(i * 7 % 251);
    }
  }
  for (const CrcField& field : target.crc_fields) {
    const Record& record = target.storage.record(field.record);
    const std::string data = contents[record.file.index()].substr(record.begin, record.bytes);
    PutCrc32(contents[field.file.index()], field.offset, Crc32(data));
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    WriteFile(folder + "/" + target.storage.files[i].path, contents[i]);
  }
}

llvm::Expected<Checkpoint> Read(const CheckpointCopy& copy, const RankPreference& preference, unsigned threads) {
  UCP_ASSIGN_OR_RETURN(Recognised recognised, RecogniseAny(RealFiles(), copy.root()));
  return recognised.format->Describe(RealFiles(), recognised.folder, preference, threads);
}

void ExpectFailure(const CheckpointCopy& copy, ErrorCode code, const std::vector<std::string>& words) {
  FailureText failure = FailureOf(Read(copy));
  EXPECT_EQ(failure.code, code) << failure.message;
  for (const std::string& word : words) EXPECT_THAT(failure.message, ::testing::HasSubstr(word));
  EXPECT_EQ(failure.message.find('\n'), std::string::npos);
}

void ExpectWeightsAlone(const CheckpointCopy& copy, const std::vector<std::string>& words) {
  auto checkpoint = Read(copy);
  if (!checkpoint) {
    ADD_FAILURE() << llvm::toString(checkpoint.takeError());
    return;
  }
  for (const std::string& word : words) {
    EXPECT_THAT(checkpoint->training.absent_optimizer, ::testing::HasSubstr(word));
  }
  EXPECT_TRUE(checkpoint->training.groups.empty());
  const Storage& storage = checkpoint->inventory.storage;
  EXPECT_FALSE(storage.shards.empty());
  for (const Shard& shard : storage.shards) {
    ASSERT_EQ(storage.buffer_set(shard.states).size(), 1u);
    EXPECT_EQ(storage.buffer_set(shard.states).front().state, kWeightState);
  }
}

}  // namespace ucp::testing
