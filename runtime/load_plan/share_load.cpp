// Ranks that hold the same shards (those of one data-parallel group) are given the same tables, which are cut and
// encoded once, and each the ready-made bytes of its own files beside them.
#include "runtime/load_plan/share_load.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compiler/plan/codec.h"
#include "compiler/plan/part_of_plan.h"
#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

// The message for a rank: tables that others also get, and its own.
struct PlanMessage {
  const std::string* tables = nullptr;
  std::string own;
};

void Add(wire::ByteWriter& writer, const FileReaders& readers) {
  writer.Add(static_cast<std::uint64_t>(readers.ranks));
  writer.Add(readers.sets.size());
  for (const std::vector<int>& set : readers.sets) {
    writer.Add(set.size());
    for (int rank : set) writer.Add(static_cast<std::uint64_t>(rank));
  }
  writer.Add(readers.set_of_file.size());
  for (std::uint32_t set : readers.set_of_file) writer.Add(std::uint64_t{set});
}

FileReaders TakeReaders(wire::ByteReader& reader) {
  FileReaders readers;
  readers.ranks = static_cast<int>(reader.Number());
  readers.sets.resize(reader.Count());
  for (std::vector<int>& set : readers.sets) {
    set.resize(reader.Count());
    for (int& rank : set) rank = static_cast<int>(reader.Number());
  }
  readers.set_of_file.resize(reader.Count());
  for (std::uint32_t& set : readers.set_of_file) {
    set = static_cast<std::uint32_t>(reader.Number());
    if (set >= readers.sets.size()) reader.Fail();
  }
  return readers;
}

// Of these files alone. Sets of ranks that none of them has are left out.
FileReaders Cut(const FileReaders& whole, const std::vector<FileId>& files) {
  FileReaders readers;
  readers.ranks = whole.ranks;
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (FileId file : files) {
    const std::uint32_t set = whole.set_of_file[file.index()];
    auto [number, added] = numbers.try_emplace(set, static_cast<std::uint32_t>(readers.sets.size()));
    if (added) readers.sets.push_back(whole.sets[set]);
    readers.set_of_file.push_back(number->second);
  }
  return readers;
}

// The plan, its readers, the source's folder, and what all ranks call the records.
llvm::Expected<std::string> EncodeTables(const Plan& plan, const FileReaders& readers, const std::string& folder,
                                         const std::vector<RecordId>& records) {
  UCP_ASSIGN_OR_RETURN(const std::string encoded, EncodePlan(plan));
  wire::ByteWriter writer;
  writer.Add(std::string_view(encoded));
  Add(writer, readers);
  writer.Add(std::string_view(folder));
  writer.Add(records.size());
  for (RecordId record : records) writer.Add(std::uint64_t{record.index()});
  return writer.bytes();
}

llvm::Error NotUnderstood(std::size_t bytes) {
  return Fail(ErrorCode::kIo, "rank 0 sent a plan of {} bytes that cannot be read; all ranks must run the same ucp",
              bytes);
}

llvm::Expected<LoadPlan> DecodeTables(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  LoadPlan load;
  UCP_ASSIGN_OR_RETURN(load.plan, DecodePlan(reader.Text()));
  load.readers = TakeReaders(reader);
  load.source_folder = reader.Text();
  load.records.resize(reader.Count());
  for (RecordId& record : load.records) record = RecordId(reader.Number());
  const bool fits = load.records.empty() || load.records.size() == load.plan.target.records.size();
  const bool has_readers = load.readers.set_of_file.size() == load.plan.target.files.size();
  if (!reader.is_at_end() || !fits || !has_readers) return NotUnderstood(bytes.size());
  return load;
}

std::string EncodeOwn(const LoadedPart& part, const ReadyMadePart& ready) {
  wire::ByteWriter writer;
  writer.Add(static_cast<std::uint64_t>(part.rank));
  writer.Add(std::string_view(part.note));
  writer.Add(ready.blobs.size());
  for (const std::string& blob : ready.blobs) writer.Add(std::string_view(blob));
  writer.Add(ready.placements.size());
  for (const BlobPlacement& placement : ready.placements) {
    writer.Add(std::uint64_t{placement.file.index()});
    writer.Add(placement.offset);
    writer.Add(std::uint64_t{placement.blob.index()});
  }
  return writer.bytes();
}

llvm::Error DecodeOwn(std::string_view bytes, SharedLoad& shared) {
  wire::ByteReader reader(bytes);
  shared.load.rank = static_cast<int>(reader.Number());
  shared.note = reader.Text();
  Plan& plan = shared.load.plan;
  const std::size_t had = plan.placements.size();
  std::vector<std::string> blobs(reader.Count());
  for (std::string& blob : blobs) blob = reader.Text();
  plan.placements.resize(had + reader.Count());
  for (std::size_t i = had; i < plan.placements.size(); ++i) {
    BlobPlacement& placement = plan.placements[i];
    placement.file = FileId(reader.Number());
    placement.offset = reader.Number();
    placement.blob = BlobId(reader.Number());
    if (placement.blob.index() >= blobs.size() || placement.file.index() >= plan.target.files.size()) reader.Fail();
  }
  if (!blobs.empty()) plan.blobs = std::move(blobs);
  return !reader.is_at_end() ? NotUnderstood(bytes.size()) : llvm::Error::success();
}

// Rank 0's. The same tables are kept in `tables` once.
llvm::Error MakePlanMessages(const LoadPlan& load, std::span<const LoadedPart> parts,
                             std::vector<PlanMessage>& messages,
                             std::map<std::vector<std::size_t>, std::string>& tables) {
  const PlanCutter cutter(load.plan);
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> ranks_of_writes;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ranks_of_writes[cutter.WritesOf(parts[rank].records)].push_back(rank);
  }
  messages.resize(parts.size());
  for (const auto& [writes, ranks] : ranks_of_writes) {
    std::vector<RecordId> records;
    std::vector<FileId> files;
    for (std::size_t rank : ranks) {
      records.insert(records.end(), parts[rank].records.begin(), parts[rank].records.end());
      files.insert(files.end(), parts[rank].files.begin(), parts[rank].files.end());
    }
    const PlanPart part = cutter.Cut(writes, records, files);
    UCP_ASSIGN_OR_RETURN(std::string encoded,
                         EncodeTables(part.plan, Cut(load.readers, part.files), load.source_folder, part.records));
    const std::string& kept = tables[writes] = std::move(encoded);
    for (std::size_t rank : ranks) {
      messages[rank] = {&kept, EncodeOwn(parts[rank], cutter.ReadyMade(part, parts[rank].files))};
    }
  }
  return llvm::Error::success();
}

// The same for all.
llvm::Error MakeWholePlanMessages(const LoadPlan& load, std::span<const LoadedPart> parts,
                                  std::vector<PlanMessage>& messages,
                                  std::map<std::vector<std::size_t>, std::string>& tables) {
  UCP_ASSIGN_OR_RETURN(tables[{}], EncodeTables(load.plan, load.readers, load.source_folder, {}));
  for (const LoadedPart& part : parts) messages.push_back({&tables[{}], EncodeOwn(part, {})});
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<SharedLoad> ShareLoad(Communicator& ranks, LoadPlan load, std::span<const LoadedPart> parts,
                                     bool is_whole) {
  if (ranks.size() == 1) return SharedLoad{std::move(load), parts.front().note};
  std::vector<PlanMessage> messages;
  std::map<std::vector<std::size_t>, std::string> tables;
  llvm::Error error = llvm::Error::success();
  if (ranks.rank() == 0) {
    error = is_whole ? MakeWholePlanMessages(load, parts, messages, tables)
                     : MakePlanMessages(load, parts, messages, tables);
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  std::vector<const std::string*> shared;
  std::vector<const std::string*> own;
  for (const PlanMessage& message : messages) {
    shared.push_back(message.tables);
    own.push_back(&message.own);
  }
  UCP_ASSIGN_OR_RETURN(const std::string my_tables, FromFirstRankToEach(ranks, shared));
  UCP_ASSIGN_OR_RETURN(const std::string my_own, FromFirstRankToEach(ranks, own));
  SharedLoad mine;
  auto take = [&]() -> llvm::Error {
    if (ranks.rank() == 0) {
      load.rank = parts.front().rank;
      mine = {std::move(load), parts.front().note};
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(mine.load, DecodeTables(my_tables));
    return DecodeOwn(my_own, mine);
  };
  UCP_RETURN_IF_ERROR(Agree(ranks, take()));
  return mine;
}

}  // namespace ucp
