// The files that real PyTorch wrote (make_samples.py), and a file in memory to read them from after they were damaged.
#pragma once

#include <string>
#include <string_view>

#include "compiler/formats/pytorch/archive/archive_reader.h"

namespace ucp::pytorch {

class MemoryFile : public ReadableFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  std::uint64_t bytes() const override { return bytes_.size(); }
  llvm::Error ReadAt(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  std::string path_ = "x.pt";
  std::string bytes_;
};

// The bytes of a sample; the test fails and they are empty if it is missing.
std::string Sample(std::string_view name);
Archive SampleArchive(std::string_view name);
// Its data.pkl.
std::string SamplePickle(std::string_view name);

// The result of reading: the error's text, or the printed tree.
std::string PickleResult(std::string_view pickle);
std::string ArchiveResult(std::string bytes);

// Fixes the checksum of data.pkl, which was changed in place, in the central directory.
std::string WithPickleChecksum(std::string archive);

// The place of the n-th (from 0) occurrence.
std::size_t Place(std::string_view bytes, std::string_view part, int n = 0);
void PutField(std::string& bytes, std::size_t offset, std::uint64_t value, int width);

}  // namespace ucp::pytorch
