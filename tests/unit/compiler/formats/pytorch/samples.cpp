#include "tests/unit/compiler/formats/pytorch/samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

llvm::Error MemoryFile::ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const {
  if (offset > bytes_.size() || buffer.size() > bytes_.size() - offset) {
    return Fail(ErrorCode::kBadData, "a read beyond the end of the file");
  }
  if (!buffer.empty()) std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
  return llvm::Error::success();
}

std::string Sample(std::string_view name) {
  const std::string path =
      std::string(UCP_SOURCE_DIR) + "/tests/unit/compiler/formats/pytorch/samples/" + std::string(name);
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Archive SampleArchive(std::string_view name) {
  auto archive = ReadArchive(MemoryFile(Sample(name)));
  if (archive) return std::move(*archive);
  ADD_FAILURE() << TakeFailure(archive.takeError()).message;
  return {};
}

std::string SamplePickle(std::string_view name) {
  const Archive archive = SampleArchive(name);
  return Sample(name).substr(archive.pickle_data.offset, archive.pickle_data.bytes);
}

std::string PickleResult(std::string_view pickle) {
  auto result = ReadPickle(pickle);
  return result ? Print(*result->root) : TakeFailure(result.takeError()).message;
}

std::string ArchiveResult(std::string bytes) {
  auto archive = ReadArchive(MemoryFile(std::move(bytes)));
  return archive ? Print(*archive->root()) : TakeFailure(archive.takeError()).message;
}

std::string WithPickleChecksum(std::string archive) {
  constexpr std::size_t kPickleOffset = 64;
  const std::size_t end = Place(archive, "PK\x07\x08");
  const std::uint32_t crc32 = Crc32(std::string_view(archive).substr(kPickleOffset, end - kPickleOffset));
  PutField(archive, Place(archive, "PK\x01\x02") + 16, crc32, 4);
  return archive;
}

std::size_t Place(std::string_view bytes, std::string_view part, int n) {
  std::size_t place = bytes.find(part);
  for (int i = 0; i < n && place != std::string_view::npos; ++i) place = bytes.find(part, place + 1);
  EXPECT_NE(place, std::string_view::npos) << part;
  return place;
}

void PutField(std::string& bytes, std::size_t offset, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes.at(offset + static_cast<std::size_t>(i)) = static_cast<char>(value >> (8 * i));
}

}  // namespace ucp::pytorch
