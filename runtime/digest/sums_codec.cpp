#include "runtime/digest/sums_codec.h"

#include <vector>

namespace ucp {

void Add(const KeyedSum& sum, wire::ByteWriter& writer) {
  for (const std::uint64_t lane : sum.lanes) writer.Add(lane);
}

KeyedSum TakeSum(wire::ByteReader& reader, DigestVersion version) {
  KeyedSum sum{version, {}};
  for (std::uint64_t& lane : sum.lanes) lane = reader.Number();
  return sum;
}

void Add(const FileSums& sums, wire::ByteWriter& writer) {
  for (std::size_t file = 0; file < sums.size(); ++file) Add(sums.Sum(file), writer);
  const std::vector<PartOfUnit> parts = sums.Parts();
  writer.Add(std::uint64_t{parts.size()});
  for (const PartOfUnit& part : parts) {
    for (const std::uint64_t number : {part.file, part.unit, part.bits, part.known}) writer.Add(number);
  }
}

void TakeFileSums(wire::ByteReader& reader, std::size_t files, llvm::function_ref<FileSums&(std::size_t file)> of) {
  for (std::size_t file = 0; file < files; ++file) of(file).AddSum(file, TakeSum(reader));
  for (std::uint64_t left = reader.Count(); left > 0; --left) {
    PartOfUnit part;
    for (std::uint64_t* number : {&part.file, &part.unit, &part.bits, &part.known}) *number = reader.Number();
    if (part.file >= files || !of(part.file).AddPart(part)) reader.Fail();
  }
}

}  // namespace ucp
