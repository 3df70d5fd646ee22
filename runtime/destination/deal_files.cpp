#include "runtime/destination/deal_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::vector<int> NodesOf(const std::vector<int>& readers, int ranks, int nodes) {
  std::set<int> found;
  for (int rank : readers) found.insert(NodeOfJobRank(rank, ranks, nodes));
  if (static_cast<int>(found.size()) == nodes) return {};
  return {found.begin(), found.end()};
}

}  // namespace

int NodeOfJobRank(int rank, int ranks, int nodes) {
  const int each = ranks / nodes;
  const int with_one_more = ranks % nodes;
  const int in_those = with_one_more * (each + 1);
  return rank < in_those ? rank / (each + 1) : with_one_more + (rank - in_those) / each;
}

TargetParts DealFiles(const FileReaders& readers, std::size_t files, std::vector<int> part_of_rank) {
  TargetParts parts;
  parts.count = 1 + *std::ranges::max_element(part_of_rank);
  parts.part_of_rank = std::move(part_of_rank);
  const std::vector<int> every_rank;
  std::map<std::vector<int>, std::uint32_t> numbers;
  std::map<const std::vector<int>*, std::uint32_t> of_readers;  // Those that were met before.
  for (std::size_t file = 0; file < files; ++file) {
    const std::vector<int>& opened_by = readers.set_of_file.empty() ? every_rank : readers.Of(FileId(file));
    auto [known, is_new] = of_readers.try_emplace(&opened_by, 0);
    if (is_new) {
      std::vector<int> nodes = NodesOf(opened_by, readers.ranks, parts.count);
      known->second = numbers.try_emplace(nodes, static_cast<std::uint32_t>(numbers.size())).first->second;
      if (known->second == parts.sets.size()) parts.sets.push_back(std::move(nodes));
    }
    parts.set_of_file.push_back(known->second);
  }
  return parts;
}

std::string EncodeDealt(const TargetParts& parts) {
  wire::ByteWriter writer;
  writer.Add(std::uint64_t{parts.sets.size()});
  for (const std::vector<int>& set : parts.sets) {
    writer.Add(std::uint64_t{set.size()});
    for (int part : set) writer.Add(static_cast<std::uint64_t>(part));
  }
  writer.Add(std::uint64_t{parts.set_of_file.size()});
  for (std::uint32_t set : parts.set_of_file) writer.Add(std::uint64_t{set});
  return writer.bytes();
}

llvm::Expected<TargetParts> DecodeDealt(const std::string& bytes, std::size_t files, std::vector<int> part_of_rank) {
  wire::ByteReader reader(bytes);
  TargetParts parts;
  parts.count = 1 + *std::ranges::max_element(part_of_rank);
  parts.part_of_rank = std::move(part_of_rank);
  auto below = [&](std::uint64_t end) {
    const std::uint64_t number = reader.Number();
    if (number >= end) reader.Fail();
    return number;
  };
  parts.sets.resize(reader.Count());
  for (std::vector<int>& set : parts.sets) {
    set.resize(reader.Count());
    for (int& part : set) part = static_cast<int>(below(static_cast<std::uint64_t>(parts.count)));
  }
  parts.set_of_file.resize(reader.Count());
  for (std::uint32_t& set : parts.set_of_file) set = static_cast<std::uint32_t>(below(parts.sets.size()));
  if (reader.is_at_end() && parts.set_of_file.size() == files) return parts;
  return Fail(ErrorCode::kIo,
              "rank 0 sent {} bytes about the parts of {} files that cannot be read; all ranks must run the same ucp",
              bytes.size(), files);
}

}  // namespace ucp
