#include "runtime/executor/saved_progress.h"

#include <bit>
#include <cstring>

namespace ucp {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

void ProgressWriter::Add(std::uint64_t number) {
  bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void ProgressWriter::Add(std::string_view text) {
  Add(std::uint64_t{text.size()});
  bytes_.append(text);
}

void ProgressWriter::Add(const KeyedSum& sum) {
  bytes_.append(reinterpret_cast<const char*>(sum.lanes.data()), sizeof(sum.lanes));
}

void ProgressWriter::Add(const FileSums& sums) {
  for (std::size_t file = 0; file < sums.size(); ++file) Add(sums.Sum(file));
  const std::vector<PartOfUnit> parts = sums.Parts();
  Add(std::uint64_t{parts.size()});
  for (const PartOfUnit& part : parts) {
    for (std::uint64_t number : {part.file, part.unit, part.bits, part.known}) Add(number);
  }
}

std::uint64_t ProgressReader::Number() {
  std::uint64_t number = 0;
  if (left_.size() < sizeof(number)) {
    has_failed_ = true;
    left_ = {};
    return 0;
  }
  std::memcpy(&number, left_.data(), sizeof(number));
  left_.remove_prefix(sizeof(number));
  return number;
}

std::string ProgressReader::Text() {
  std::uint64_t bytes = Number();
  if (bytes > left_.size()) {
    has_failed_ = true;
    return "";
  }
  std::string text(left_.substr(0, bytes));
  left_.remove_prefix(bytes);
  return text;
}

KeyedSum ProgressReader::Sum(DigestVersion version) {
  KeyedSum sum{version, {}};
  for (std::uint64_t& lane : sum.lanes) lane = Number();
  return sum;
}

void ProgressReader::AddTo(std::size_t files, llvm::function_ref<FileSums&(std::size_t file)> of) {
  for (std::size_t file = 0; file < files; ++file) of(file).AddSum(file, Sum());
  for (std::uint64_t left = Count(); left > 0; --left) {
    PartOfUnit part;
    for (std::uint64_t* number : {&part.file, &part.unit, &part.bits, &part.known}) *number = Number();
    if (part.file >= files || !of(part.file).AddPart(part)) has_failed_ = true;
  }
}

std::uint64_t ProgressReader::Count() {
  std::uint64_t count = Number();
  if (count <= left_.size() / sizeof(std::uint64_t)) return count;
  has_failed_ = true;
  return 0;
}

}  // namespace ucp
