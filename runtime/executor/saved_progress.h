// How far a run has come, as bytes: each part of an execution writes what it has added up, and reads it again in the
// same order. Numbers are little-endian and 64 bits wide.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/digest/file_sums.h"
#include "runtime/digest/keyed_sum.h"

namespace ucp {

class ProgressWriter {
 public:
  void Add(std::uint64_t number);
  void Add(std::string_view text);
  void Add(const KeyedSum& sum);  // But its version.
  void Add(const FileSums& sums);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Never reads behind the end: what would lie there is 0 or empty, and has_failed() from then on.
class ProgressReader {
 public:
  explicit ProgressReader(std::string_view bytes) : left_(bytes) {}

  std::uint64_t Number();
  std::string Text();
  KeyedSum Sum(DigestVersion version = kDigestVersion);
  // What Add(FileSums) wrote, of so many files; each is added to the sums that `of` gives for it.
  void AddTo(std::size_t files, llvm::function_ref<FileSums&(std::size_t file)> of);
  // How many things follow, each of which takes 8 bytes at least; so it is never more than the bytes can hold.
  std::uint64_t Count();
  // Notes that something is not as it must be.
  void Fail() { has_failed_ = true; }

  bool has_failed() const { return has_failed_; }
  std::string_view left() const { return left_; }

 private:
  std::string_view left_;
  bool has_failed_ = false;
};

}  // namespace ucp
