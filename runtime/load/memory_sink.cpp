#include "runtime/load/memory_sink.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/parallel.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/load/exchange_room.h"
#include "runtime/load/share_reads.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

// One rank may read for all only if all would read the same.
llvm::Expected<bool> IsSoForAll(Communicator& ranks, bool is_so) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(is_so ? "" : "no"));
  return std::all_of(all.begin(), all.end(), [](const std::string& one) { return one.empty(); });
}

// The names of the records that this rank wants, as stretches of neighbours.
std::string EncodeWanted(const LoadPlan& load, const Places& places) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stretches;
  for (std::size_t record = 0; record < load.plan.target.records.size(); ++record) {
    if (!places.Holds(RecordId(record))) continue;
    const std::uint64_t name = load.NameOf(RecordId(record)).index();
    if (stretches.empty() || stretches.back().second != name) stretches.emplace_back(name, name);
    ++stretches.back().second;
  }
  wire::ByteWriter mine;
  for (const auto& [first, end] : stretches) {
    mine.Add(first);
    mine.Add(end);
  }
  return mine.bytes();
}

// The ranks that want each record. Records that are not in this rank's plan concern others.
llvm::Expected<RanksOfRecords> WantedBy(const LoadPlan& load, const Places& places, Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(EncodeWanted(load, places)));
  RanksOfRecords wanted_by(load.plan.target.records.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    wire::ByteReader reader(all[rank]);
    while (!reader.left().empty()) {
      const std::uint64_t first = reader.Number();
      const std::uint64_t end = reader.Number();
      for (RecordId record : load.Between(first, end)) wanted_by[record.index()].push_back(static_cast<int>(rank));
    }
    if (reader.has_failed()) return Fail(ErrorCode::kIo, "rank {} runs another ucp", rank);
  }
  return wanted_by;
}

// The other ranks that want anything that this one wants; so does this one of theirs.
std::vector<int> PartnersOf(int rank, const std::vector<SharedContents>& contents) {
  std::set<int> partners;
  for (const SharedContents& shared : contents) partners.insert(shared.ranks.begin(), shared.ranks.end());
  partners.erase(rank);
  return {partners.begin(), partners.end()};
}

}  // namespace

MemorySink::MemorySink(const LoadPlan& load, const Places& places, DeviceRings& rings, const BufferSizes& sizes,
                       const MemorySinkOptions& options)
    : load_(load),
      plan_(load.plan),
      places_(places),
      rings_(rings),
      sizes_(sizes),
      options_(options),
      ranges_(places.Ranges()),
      stored_(load.plan) {}

SinkSize MemorySink::Size() const {
  SinkSize size;
  for (const TargetRange& range : ranges_) {
    size.bytes_left += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  }
  return size;
}

llvm::Error MemorySink::Prepare(Engine& engine) {
  Communicator& ranks = engine.ranks();
  UCP_ASSIGN_OR_RETURN(is_as_stored_, IsSoForAll(ranks, stored_.HasAll(ranges_)));
  UCP_ASSIGN_OR_RETURN(wanted_by_, WantedBy(load_, places_, ranks));
  return Agree(ranks, places_.FillBetween(ranges_));  // All ranks come to the exchange, or none.
}

llvm::Error MemorySink::Fill(Engine& engine) {
  engine.BeginPhaseOf("move");
  Communicator& ranks = engine.ranks();
  const std::vector<SharedContents> contents = FindContents(plan_, wanted_by_, ranks.rank(), ranks.size());
  if (ranks.size() > 1) UCP_RETURN_IF_ERROR(FillShared(engine, contents));
  for (const SharedContents& shared : contents) {
    if (shared.ranks.size() == 1) UCP_RETURN_IF_ERROR(FillAlone(engine, shared.contents));
  }
  return places_.Finish();
}

NcclOffer MemorySink::Offer(Communicator& ranks, const std::vector<SharedContents>& contents) const {
  const std::vector<const Device*> devices = places_.Devices();
  NcclOffer offer;
  offer.seconds = options_.peer_seconds;
  if (!devices.empty()) offer.partners = PartnersOf(ranks.rank(), contents);
  const std::uint64_t least = Exchange::LeastMemory(ranks.size());
  if (devices.empty()) {
    offer.why_not = fmt::format("rank {} loads into no GPU", ranks.rank());
  } else if (devices.size() != 1 || places_.HasHostMemory()) {
    offer.why_not = fmt::format("rank {} loads into other memory than that of one GPU", ranks.rank());
  } else if (rings_.left_device_bytes() < least) {
    offer.why_not = fmt::format(
        "rank {} has {} of its GPU's memory left beside its slots, and the exchange takes {}; raise {}", ranks.rank(),
        HumanBytes(rings_.left_device_bytes()), HumanBytes(least), OptionName(UserOption::kDeviceMemory));
  } else {
    offer.device = devices.front()->index();
  }
  return offer;
}

// Contents that other ranks also want.
llvm::Error MemorySink::FillShared(Engine& engine, const std::vector<SharedContents>& contents) {
  Communicator& ranks = engine.ranks();
  UCP_ASSIGN_OR_RETURN(const NcclConnection connection, ConnectGpus(ranks, Offer(ranks, contents)));
  std::unique_ptr<ExchangeRoom> room;
  ExchangeOptions options{engine.parallel(), sizes_.chunk_bytes, 0};
  if (connection.peers != nullptr) {
    room = std::make_unique<DeviceRoom>(places_, rings_, ranks, *connection.peers);
    options.memory_bytes = rings_.left_device_bytes();
  } else {
    room = std::make_unique<HostRoom>(places_, ranks);
    options.memory_bytes = sizes_.left_bytes - rings_.host_bytes();
    if (!rings_.rings().empty()) why_by_hosts_ = connection.why_not;
  }
  Exchange exchange(plan_, contents, ranks, *room, options);
  UCP_RETURN_IF_ERROR(exchange.Run([&](unsigned thread, const TargetRange& range, std::span<std::byte> place) {
    engine.AddProgress(place.size());
    return Make(engine, thread, range, place);
  }));
  bytes_received_ = exchange.bytes_received();
  if (connection.peers != nullptr) bytes_from_peers_ = bytes_received_;
  exchange_bytes_ = room->host_bytes();
  return llvm::Error::success();
}

// Contents that no other rank wants.
llvm::Error MemorySink::FillAlone(Engine& engine, const std::vector<Content>& contents) const {
  UCP_RETURN_IF_ERROR(FillHost(engine, ContentsOn(nullptr, places_, contents)));
  for (const std::unique_ptr<SlotRing>& ring : rings_.rings()) {
    UCP_RETURN_IF_ERROR(ReadToDevice(
        plan_, places_, ContentsOn(&ring->device(), places_, contents), *ring, sizes_.chunk_bytes, engine.parallel(),
        [&](unsigned thread, const TargetRange& range, std::span<std::byte> slot, std::uint64_t wanted_bytes) {
          if (engine.IsAskedToStop(thread)) return Fail(ErrorCode::kCancelled, "interrupted");
          engine.AddProgress(wanted_bytes);
          return Make(engine, thread, range, slot);
        }));
  }
  return llvm::Error::success();
}

llvm::Error MemorySink::FillHost(Engine& engine, const std::vector<Content>& contents) const {
  const std::vector<Piece> pieces = CutIntoPieces(plan_, contents, sizes_.chunk_bytes);
  return ForEachInStretches(pieces.size(), engine.parallel(),
                            [&](unsigned thread, std::uint64_t number) -> llvm::Error {
                              if (engine.IsAskedToStop(thread)) return Fail(ErrorCode::kCancelled, "interrupted");
                              const Piece& piece = pieces[number];
                              const TargetRange range = RangeOf(contents[piece.content], piece);
                              const std::span<std::byte> place = places_.Of(range);
                              engine.AddProgress(place.size());
                              UCP_RETURN_IF_ERROR(Make(engine, thread, range, place));
                              PlaceCopies(places_, contents[piece.content], piece);
                              return llvm::Error::success();
                            });
}

llvm::Error MemorySink::Make(Engine& engine, unsigned thread, const TargetRange& range,
                             std::span<std::byte> place) const {
  if (!is_as_stored_ || !options_.reads_as_stored) return engine.MakeInPlace(thread, range, place);
  const StoredRange stored = *stored_.Find(range);
  const auto offset = static_cast<std::uint64_t>(stored.record_element * ItemBytes(range.dtype));
  return engine.ReadRecord(stored.record, offset, place);
}

}  // namespace ucp
