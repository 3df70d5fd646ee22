// The messages between a rank and the writer (message_socket.h):
//
//   writer    kHello           the number of its process
//   rank      JoinMessage      to a writer that has just begun: what it holds, and the settings of its Saver
//   writer    LaidOutMessage   with the rank's segment, unless its memory is read; again when a state has changed its
//   shape rank      SaveMessage      a save: its path, the values writer    kBegin           all ranks have called, and
//   nobody reads the segments: stage now rank      StagedMessage    the segment holds the state writer    DoneMessage
//   the checkpoint is at its path writer    FailedMessage    in place of any of the writer's; to a JoinMessage it is
//   the last one rank      kLeave           no more saves
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/digest/unit_sum.h"
#include "runtime/job_state/job_state.h"
#include "runtime/jobs/save/save.h"
#include "runtime/save/stage.h"

namespace ucp {

enum class SaveMessageKind : std::uint64_t { kHello, kJoin, kLaidOut, kSave, kBegin, kStaged, kDone, kFailed, kLeave };

// The settings of a Saver, the same on all ranks.
struct SaverSettings {
  SaveRequest request;
  unsigned threads = 1;
  std::uint64_t memory_bytes = std::uint64_t{256} << 20;  // Of the writer, beside the segments.
  std::uint64_t keep = 0;                                 // The newest so many of its checkpoints; 0: all.
  double timeout_seconds = 600;    // In which all ranks must have called, once one has; and staged, once all have.
  int nice = 0;                    // Added to the writer's niceness.
  bool reads_memory = false;       // The ranks wait for each save: the writer may read their memory itself.
  bool verifies_replicas = false;  // A save fails where ranks hold one box with other elements.
  bool finishes_orphans = true;    // A save that was staged is written even if the job has died.
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
};

struct LaidOutMessage {
  std::vector<StagedBox> boxes;
  std::vector<std::size_t> values;  // Entries whose values the rank sends with each save.
  std::uint64_t segment_bytes = 0;
  std::string plan;                     // JSON: what a save will write.
  std::vector<ReplicatedBox> replicas;  // With SaverSettings::verifies_replicas: whose digests the rank sends.
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

struct StagedMessage {
  std::uint64_t number = 0;
  std::vector<SumLanes> digests;  // Of LaidOutMessage::replicas.
};

struct DoneMessage {
  std::uint64_t number = 0;
  std::string report;  // JSON
};

struct FailedMessage {
  std::uint64_t number = 0;
  ErrorCode code = ErrorCode::kIo;
  std::string message;
};

std::string Encode(const JoinMessage& message);
std::string Encode(const LaidOutMessage& message);
std::string Encode(const SaveMessage& message);
std::string Encode(const StagedMessage& message);
std::string Encode(const DoneMessage& message);
std::string Encode(const FailedMessage& message);
std::string EncodeNumber(std::uint64_t number);  // Of kHello and kBegin.
// All that must be the same on all ranks.
std::string Encode(const SaverSettings& settings);

// Fail (kIo) for bytes that Encode() did not make.
llvm::Expected<JoinMessage> DecodeJoin(std::string_view bytes);
llvm::Expected<LaidOutMessage> DecodeLaidOut(std::string_view bytes);
llvm::Expected<SaveMessage> DecodeSave(std::string_view bytes);
llvm::Expected<StagedMessage> DecodeStaged(std::string_view bytes);
llvm::Expected<DoneMessage> DecodeDone(std::string_view bytes);
llvm::Expected<FailedMessage> DecodeFailed(std::string_view bytes);
llvm::Expected<std::uint64_t> DecodeNumber(std::string_view bytes);

}  // namespace ucp
