#include "runtime/save/save_messages.h"

#include <bit>
#include <limits>
#include <utility>

#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

llvm::Error Damaged() { return MakeError(ErrorCode::kIo, "a message between a rank and the writer is damaged"); }

// The size of the file that they are is a number.
bool IsPossible(const StagingWaves& waves) {
  if (waves.count <= 1) return waves.count == 1 && waves.window == 0;
  return waves.window > 0 && waves.count <= std::numeric_limits<std::uint64_t>::max() / waves.window;
}

void AddTexts(wire::ByteWriter& writer, const std::vector<std::string>& texts) {
  writer.Add(std::uint64_t{texts.size()});
  for (const std::string& text : texts) writer.Add(std::string_view(text));
}

std::vector<std::string> ReadTexts(wire::ByteReader& reader) {
  std::vector<std::string> texts;
  for (std::uint64_t left = reader.Count(); left > 0; --left) texts.push_back(reader.Text());
  return texts;
}

void AddNumbers(wire::ByteWriter& writer, const std::vector<std::int64_t>& numbers) {
  writer.Add(std::uint64_t{numbers.size()});
  for (const std::int64_t number : numbers) writer.Add(static_cast<std::uint64_t>(number));
}

std::vector<std::int64_t> ReadNumbers(wire::ByteReader& reader) {
  std::vector<std::int64_t> numbers(reader.Count());
  for (std::int64_t& number : numbers) number = static_cast<std::int64_t>(reader.Number());
  return numbers;
}

void AddMemories(wire::ByteWriter& writer, const BoxMemories& memories) {
  writer.Add(std::uint64_t{memories.size()});
  for (const std::vector<BoxMemory>& of_entry : memories) {
    writer.Add(std::uint64_t{of_entry.size()});
    for (const BoxMemory& box : of_entry) {
      writer.Add(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(box.address)));
      writer.Add(static_cast<std::uint64_t>(box.item_bytes));
      AddNumbers(writer, box.sizes);
      AddNumbers(writer, box.strides);
    }
  }
}

BoxMemories ReadMemories(wire::ByteReader& reader) {
  BoxMemories memories(reader.Count());
  for (std::vector<BoxMemory>& of_entry : memories) {
    of_entry.resize(reader.Count());
    for (BoxMemory& box : of_entry) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): of another process, and never followed here.
      box.address = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(reader.Number()));
      box.item_bytes = static_cast<std::int64_t>(reader.Number());
      box.sizes = ReadNumbers(reader);
      box.strides = ReadNumbers(reader);
    }
  }
  return memories;
}

SaverSettings ReadSettings(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  SaverSettings settings;
  SourceTexts& source = settings.request.source;
  source.spec = reader.Text();
  source.config = reader.Text();
  source.set = ReadTexts(reader);
  source.unused = ReadTexts(reader);
  source.drop_states = ReadTexts(reader);
  settings.request.target = reader.Text();
  settings.request.settings.keep_opaque = ReadTexts(reader);
  settings.request.settings.job_config = reader.Text();
  settings.threads = static_cast<unsigned>(reader.Number());
  settings.memory_bytes = reader.Number();
  settings.keep = reader.Number();
  settings.timeout_seconds = std::bit_cast<double>(reader.Number());
  settings.nice = static_cast<int>(reader.Number());
  settings.reads_memory = reader.Number() != 0;
  settings.verifies_replicas = reader.Number() != 0;
  settings.finishes_orphans = reader.Number() != 0;
  settings.rooms = reader.Number();
  settings.staging_bytes = reader.Number();
  if (const std::uint64_t part = reader.Number(); part > 0) settings.part = part - 1;
  settings.node_local = reader.Number() != 0;
  settings.lock_file = reader.Text();
  return settings;
}

}  // namespace

std::string Encode(const SaverSettings& settings) {
  wire::ByteWriter writer;
  const SourceTexts& source = settings.request.source;
  writer.Add(std::string_view(source.spec));
  writer.Add(std::string_view(source.config));
  AddTexts(writer, source.set);
  AddTexts(writer, source.unused);
  AddTexts(writer, source.drop_states);
  writer.Add(std::string_view(settings.request.target));
  AddTexts(writer, settings.request.settings.keep_opaque);
  writer.Add(std::string_view(settings.request.settings.job_config));
  writer.Add(std::uint64_t{settings.threads});
  writer.Add(settings.memory_bytes);
  writer.Add(settings.keep);
  writer.Add(std::bit_cast<std::uint64_t>(settings.timeout_seconds));
  writer.Add(static_cast<std::uint64_t>(settings.nice));
  writer.Add(std::uint64_t{settings.reads_memory});
  writer.Add(std::uint64_t{settings.verifies_replicas});
  writer.Add(std::uint64_t{settings.finishes_orphans});
  writer.Add(settings.rooms);
  writer.Add(settings.staging_bytes);
  writer.Add(settings.part ? *settings.part + 1 : 0);
  writer.Add(std::uint64_t{settings.node_local});
  writer.Add(std::string_view(settings.lock_file));
  return writer.bytes();
}

std::string Encode(const JoinMessage& message) {
  wire::ByteWriter writer;
  writer.Add(static_cast<std::uint64_t>(message.rank));
  writer.Add(static_cast<std::uint64_t>(message.ranks));
  writer.Add(std::string_view(Encode(message.settings)));
  writer.Add(std::string_view(Encode(message.state)));
  writer.Add(std::string_view(message.values));
  writer.Add(message.process);
  AddMemories(writer, message.memories);
  AddTexts(writer, message.abandoned);
  writer.Add(std::string_view(message.problem));
  writer.Add(static_cast<std::uint64_t>(message.machines.machine));
  writer.Add(static_cast<std::uint64_t>(message.machines.ranks_here));
  AddTexts(writer, message.machines.addresses);
  writer.Add(std::string_view(message.machines.secret));
  writer.Add(std::uint64_t{message.comes_with_all});
  return writer.bytes();
}

llvm::Expected<JoinMessage> DecodeJoin(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  JoinMessage message;
  message.rank = static_cast<int>(reader.Number());
  message.ranks = static_cast<int>(reader.Number());
  message.settings = ReadSettings(reader.Text());
  UCP_ASSIGN_OR_RETURN(message.state, DecodeHeldState(reader.Text()));
  message.values = reader.Text();
  message.process = reader.Number();
  message.memories = ReadMemories(reader);
  message.abandoned = ReadTexts(reader);
  message.problem = reader.Text();
  message.machines.machine = static_cast<int>(reader.Number());
  message.machines.ranks_here = static_cast<int>(reader.Number());
  message.machines.addresses = ReadTexts(reader);
  message.machines.secret = reader.Text();
  message.comes_with_all = reader.Number() != 0;
  if (!reader.is_at_end() || message.rank < 0 || message.rank >= message.ranks) return Damaged();
  if (message.settings.rooms < 1 || message.settings.rooms > kMostRooms) return Damaged();
  return message;
}

std::string Encode(const LaidOutMessage& message) {
  wire::ByteWriter writer;
  writer.Add(std::uint64_t{message.boxes.size()});
  for (const StagedBox& box : message.boxes) {
    for (const std::uint64_t number : {std::uint64_t{box.entry}, std::uint64_t{box.box}, box.offset, box.bytes}) {
      writer.Add(number);
    }
  }
  writer.Add(std::uint64_t{message.values.size()});
  for (const std::size_t entry : message.values) writer.Add(std::uint64_t{entry});
  writer.Add(message.segment_bytes);
  writer.Add(std::string_view(message.plan));
  writer.Add(std::uint64_t{message.replicas.size()});
  for (const ReplicatedBox& box : message.replicas) {
    writer.Add(std::uint64_t{box.entry});
    writer.Add(std::uint64_t{box.box});
  }
  writer.Add(std::uint64_t{message.holds_all});
  writer.Add(message.waves.count);
  writer.Add(message.waves.window);
  return writer.bytes();
}

llvm::Expected<LaidOutMessage> DecodeLaidOut(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  LaidOutMessage message;
  message.boxes.resize(reader.Count());
  for (StagedBox& box : message.boxes) {
    box.entry = reader.Number();
    box.box = reader.Number();
    box.offset = reader.Number();
    box.bytes = reader.Number();
  }
  message.values.resize(reader.Count());
  for (std::size_t& entry : message.values) entry = reader.Number();
  message.segment_bytes = reader.Number();
  message.plan = reader.Text();
  message.replicas.resize(reader.Count());
  for (ReplicatedBox& box : message.replicas) {
    box.entry = reader.Number();
    box.box = reader.Number();
  }
  message.holds_all = reader.Number() != 0;
  message.waves.count = reader.Number();
  message.waves.window = reader.Number();
  if (!reader.is_at_end() || !IsPossible(message.waves)) return Damaged();
  return message;
}

std::string Encode(const SaveMessage& message) {
  wire::ByteWriter writer;
  writer.Add(message.number);
  writer.Add(std::string_view(message.path));
  writer.Add(std::string_view(message.tag));
  writer.Add(std::uint64_t{message.force});
  writer.Add(std::string_view(message.values));
  writer.Add(std::string_view(message.problem));
  AddMemories(writer, message.memories);
  writer.Add(std::uint64_t{message.has_state});
  if (message.has_state) writer.Add(std::string_view(Encode(message.state)));
  return writer.bytes();
}

llvm::Expected<SaveMessage> DecodeSave(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  SaveMessage message;
  message.number = reader.Number();
  message.path = reader.Text();
  message.tag = reader.Text();
  message.force = reader.Number() != 0;
  message.values = reader.Text();
  message.problem = reader.Text();
  message.memories = ReadMemories(reader);
  message.has_state = reader.Number() != 0;
  if (message.has_state) {
    UCP_ASSIGN_OR_RETURN(message.state, DecodeHeldState(reader.Text()));
  }
  if (!reader.is_at_end()) return Damaged();
  return message;
}

std::string Encode(const BeginMessage& message) {
  wire::ByteWriter writer;
  writer.Add(message.number);
  writer.Add(message.room);
  writer.Add(message.wave);
  return writer.bytes();
}

llvm::Expected<BeginMessage> DecodeBegin(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  BeginMessage message{reader.Number(), reader.Number(), reader.Number()};
  if (!reader.is_at_end() || message.room >= kMostRooms) return Damaged();
  return message;
}

std::string Encode(const StagedMessage& message) {
  wire::ByteWriter writer;
  writer.Add(message.number);
  writer.Add(std::uint64_t{message.digests.size()});
  for (const SumLanes& lanes : message.digests) {
    for (const std::uint64_t lane : lanes) writer.Add(lane);
  }
  return writer.bytes();
}

llvm::Expected<StagedMessage> DecodeStaged(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  StagedMessage message;
  message.number = reader.Number();
  message.digests.resize(reader.Count());
  for (SumLanes& lanes : message.digests) {
    for (std::uint64_t& lane : lanes) lane = reader.Number();
  }
  if (!reader.is_at_end()) return Damaged();
  return message;
}

std::string Encode(const DoneMessage& message) {
  wire::ByteWriter writer;
  writer.Add(message.number);
  writer.Add(std::string_view(message.report));
  return writer.bytes();
}

llvm::Expected<DoneMessage> DecodeDone(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  DoneMessage message{reader.Number(), reader.Text()};
  if (!reader.is_at_end()) return Damaged();
  return message;
}

std::string Encode(const FailedMessage& message) {
  wire::ByteWriter writer;
  writer.Add(message.number);
  writer.Add(static_cast<std::uint64_t>(message.code));
  writer.Add(std::string_view(message.message));
  return writer.bytes();
}

llvm::Expected<FailedMessage> DecodeFailed(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  FailedMessage message;
  message.number = reader.Number();
  const std::uint64_t code = reader.Number();
  message.message = reader.Text();
  if (!reader.is_at_end() || code > static_cast<std::uint64_t>(ErrorCode::kCancelled)) return Damaged();
  message.code = static_cast<ErrorCode>(code);
  return message;
}

std::optional<EndOfSave> DecodeEnd(std::uint64_t kind, std::string_view bytes) {
  std::optional<EndOfSave> end;
  llvm::Error error = llvm::Error::success();
  if (kind == static_cast<std::uint64_t>(SaveMessageKind::kDone)) {
    llvm::Expected<DoneMessage> done = DecodeDone(bytes);
    if (done) end = EndOfSave{done->number, std::move(done->report), std::nullopt};
    error = done.takeError();
  } else if (kind == static_cast<std::uint64_t>(SaveMessageKind::kFailed)) {
    llvm::Expected<FailedMessage> failed = DecodeFailed(bytes);
    if (failed) end = EndOfSave{failed->number, "", FailureText{failed->code, std::move(failed->message)}};
    error = failed.takeError();
  }
  llvm::consumeError(std::move(error));
  return end;
}

std::string Encode(const WriteMessage& message) {
  wire::ByteWriter writer;
  writer.Add(std::string_view(message.path));
  writer.Add(std::uint64_t{message.force});
  writer.Add(message.room);
  return writer.bytes();
}

llvm::Expected<WriteMessage> DecodeWrite(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  WriteMessage message;
  message.path = reader.Text();
  message.force = reader.Number() != 0;
  message.room = reader.Number();
  if (!reader.is_at_end() || message.room >= kMostRooms) return Damaged();
  return message;
}

std::string EncodeNumber(std::uint64_t number) {
  wire::ByteWriter writer;
  writer.Add(number);
  return writer.bytes();
}

llvm::Expected<std::uint64_t> DecodeNumber(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  const std::uint64_t number = reader.Number();
  if (!reader.is_at_end()) return Damaged();
  return number;
}

}  // namespace ucp
