// The messages between a rank and the writer (message_socket.h):
//
// - kHello, of the writer: the number of its process.
// - JoinMessage, of the rank, to a writer that has just begun: the state that it holds, and the settings of its Saver.
// The
//   lowest rank of a machine sends the socket along at which other machines connect, if there are any.
// - LaidOutMessage, of the writer, with the rank's segment, unless its memory is read. It comes again when a state has
//   changed its shape.
// - SaveMessage, of the rank: a save, with its path and the values.
// - BeginMessage, of the writer: all ranks have called, and nobody reads this room of the segments, so stage there now.
// - StagedMessage, of the rank: the room holds the state. With several rooms the next SaveMessage may follow at once.
//   Where a state is staged in waves, both come once for each.
// - DoneMessage, of the writer: the checkpoint is at its path.
// - FailedMessage, in place of any of the writer's; to a JoinMessage it is the last one.
// - kLeave, of the rank: no more saves.
// - WriteMessage, from the first writer to that of another machine.
// - kGone, from that one to the first writer: the rank's process has ended.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/digest/unit_sum.h"
#include "runtime/job_state/job_state.h"
#include "runtime/jobs/save/save.h"
#include "runtime/save/stage.h"

namespace ucp {

enum class SaveMessageKind : std::uint64_t {
  kHello,
  kJoin,
  kLaidOut,
  kSave,
  kBegin,
  kStaged,
  kDone,
  kFailed,
  kLeave,
  kWrite,
  kGone
};

// A segment has at most so many, so there are no more saves in flight: one is staged while another is written.
inline constexpr std::size_t kMostRooms = 2;

// The reason for a connection between machines (machine_socket.h).
enum class MachinePurpose : std::uint64_t {
  kRank,    // A rank of another machine; its number.
  kWriter,  // The writer of another machine; the machine's number.
  kRun,     // The lowest rank of another machine, for a run of all machines; the machine's number.
};

// The settings of a Saver, the same on all ranks.
struct SaverSettings {
  SaveRequest request;
  unsigned threads = 1;
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // Of the writer, beside the segments.
  std::uint64_t keep = 0;                                 // The newest so many of its checkpoints; 0: all.
  double timeout_seconds = 600;       // In which all ranks must have called, once one has; and staged, once all have.
  int nice = 0;                       // Added to the writer's niceness.
  bool reads_memory = false;          // The ranks wait for each save: the writer may read their memory itself.
  bool verifies_replicas = false;     // A save fails where ranks hold one box with other elements.
  bool finishes_orphans = true;       // A save that was staged is written even if the job has died.
  std::uint64_t rooms = 1;            // Of each segment.
  std::uint64_t staging_bytes = 0;    // The most that a rank stages at a time; 0: all that it has.
  std::optional<std::uint64_t> part;  // The ranks are those of one machine, which saves this part of the job's state.
  bool node_local = false;            // Each machine keeps its part of a checkpoint, at the same path on its own disk.
  std::string lock_file;              // On which the writer has a shared lock as long as it lives. Empty: none.
};

// The machines of a job whose ranks are on several.
struct JobMachines {
  int machine = 0;                     // This rank's.
  int ranks_here = 1;                  // Of this machine.
  std::vector<std::string> addresses;  // By machine (machine_socket.h). None: there is one machine.
  std::string secret;
};

struct JoinMessage {
  int rank = 0;
  int ranks = 1;
  SaverSettings settings;
  HeldState state;
  std::string values;         // As in SaveMessage, for the first plan.
  std::uint64_t process = 0;  // With `reads_memory`, and so is the next.
  BoxMemories memories;
  std::vector<std::string>
      abandoned;        // Paths of saves during which earlier writers died: the remains there are removed.
  std::string problem;  // As in SaveMessage.
  JobMachines machines;
  bool comes_with_all = false;  // All ranks join now, and not when they call their next save.
};

struct LaidOutMessage {
  std::vector<StagedBox> boxes;
  std::vector<std::size_t> values;      // Entries whose values the rank sends with each save.
  std::uint64_t segment_bytes = 0;      // Of one room.
  std::string plan;                     // JSON: what a save will write.
  std::vector<ReplicatedBox> replicas;  // With SaverSettings::verifies_replicas: whose digests the rank sends.
  bool holds_all = true;                // Otherwise the ranks, which are those of one machine, hold parts of tensors.
  StagingWaves waves = {};              // Boxes have their offsets in the file of all waves.
};

struct SaveMessage {
  std::uint64_t number = 0;
  std::string path;
  std::string tag;       // Of the checkpoint, for formats that have one.
  bool force = false;    // A folder at the path may be replaced.
  std::string values;    // An archive of torch.save: a dict of the values by key. Empty: the rank has none that count.
  std::string problem;   // Why the rank cannot take part, as a sentence; empty: it does.
  BoxMemories memories;  // With SaverSettings::reads_memory, if they are not those of before.
  bool has_state = false;
  HeldState state;  // If it is not what was held before.
};

struct BeginMessage {
  std::uint64_t number = 0;
  std::uint64_t room = 0;
  std::uint64_t wave = 0;
};

struct StagedMessage {
  std::uint64_t number = 0;
  std::vector<SumLanes> digests;  // Of LaidOutMessage::replicas, with the first wave.
};

struct DoneMessage {
  std::uint64_t number = 0;
  std::string report;  // JSON
};

// From the first writer to that of another machine: all ranks have staged a save.
struct WriteMessage {
  std::string path;
  bool force = false;
  std::uint64_t room = 0;
};

struct FailedMessage {
  std::uint64_t number = 0;
  ErrorCode code = ErrorCode::kIo;
  std::string message;
};

// How a save has ended.
struct EndOfSave {
  std::uint64_t number = 0;
  std::string report;                  // As in DoneMessage.
  std::optional<FailureText> failure;  // In place of it.
};

std::string Encode(const JoinMessage& message);
std::string Encode(const LaidOutMessage& message);
std::string Encode(const SaveMessage& message);
std::string Encode(const BeginMessage& message);
std::string Encode(const StagedMessage& message);
std::string Encode(const DoneMessage& message);
std::string Encode(const FailedMessage& message);
std::string Encode(const WriteMessage& message);
std::string EncodeNumber(std::uint64_t number);  // Of kHello.
// All that must be the same on all ranks.
std::string Encode(const SaverSettings& settings);

// Fail (kIo) for bytes that Encode() did not make.
llvm::Expected<JoinMessage> DecodeJoin(std::string_view bytes);
llvm::Expected<LaidOutMessage> DecodeLaidOut(std::string_view bytes);
llvm::Expected<SaveMessage> DecodeSave(std::string_view bytes);
llvm::Expected<BeginMessage> DecodeBegin(std::string_view bytes);
llvm::Expected<StagedMessage> DecodeStaged(std::string_view bytes);
llvm::Expected<DoneMessage> DecodeDone(std::string_view bytes);
llvm::Expected<FailedMessage> DecodeFailed(std::string_view bytes);
// Of a DoneMessage or FailedMessage; nothing of another one.
std::optional<EndOfSave> DecodeEnd(std::uint64_t kind, std::string_view bytes);
llvm::Expected<WriteMessage> DecodeWrite(std::string_view bytes);
llvm::Expected<std::uint64_t> DecodeNumber(std::string_view bytes);

}  // namespace ucp
