// Saves the state of a running job, from the memory of its ranks, into a checkpoint of any format, while the job goes
// on. A process of the library's own writes: the program `ucprun`.
//
//   ucp::Saver saver(state, "dcp", {.ranks = &ranks, .keep = 3});            // Before the job trains.
//   ucp::Saving saving = saver.Save("checkpoints/step-500", state);          // Returns at once.
//   saver.WaitForStaging();                                                  // Before the state changes.
//   saving.durable.Wait();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ucp/error.h"
#include "ucp/load_into.h"
#include "ucp/ranks.h"
#include "ucp/source.h"

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

// The place of an entry in the nested state: keys of dicts, and places in lists. {"optimizer", "param_groups", 0, "lr"}
using StatePath = std::vector<std::variant<std::string, std::int64_t>>;

// A tensor of the state, of which this rank holds all, a part or nothing.
struct TensorToSave {
  StatePath path;                   // {"model", "embed.weight"}; {"optimizer", "state", "embed.weight", "exp_avg"}
  std::string dtype = "float32";    // As PyTorch names it.
  std::vector<std::int64_t> shape;  // Of the whole tensor.
  // By dimension, the positions that are held, increasing. Empty: all of the tensor.
  std::vector<std::vector<HeldSpan>> holds = {};
  std::span<const std::byte> memory;       // Of the local tensor: as many bytes as the elements held have.
  std::vector<std::int64_t> strides = {};  // Of the local tensor, in elements, from 0 on. Empty: it is row-major.
  std::shared_ptr<const void> owner = {};  // Is kept until the save is staged: whatever keeps the memory.
};

// An entry that is not a tensor.
struct ValueToSave {
  StatePath path;
  std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>> value;
};

struct StateToSave {
  std::vector<TensorToSave> tensors;
  std::vector<ValueToSave> values = {};
};

// The same on all ranks, but for `ranks`. These may be on several machines: each has a process that writes, and the
// environment's UCP_MACHINE and UCP_HOST count as they do for Python.
struct SaveSettings {
  Ranks* ranks = nullptr;        // Those that save together. Null: this process alone. Not used after the constructor.
  std::uint64_t keep = 0;        // So many of the newest checkpoints stay, and older ones are removed; 0: all stay.
  double timeout_seconds = 600;  // In which all ranks must call a save, and stage their part of it.
  int staging = 1;  // With 2, a save is staged while the one before is written, which takes the memory twice.
  std::uint64_t staging_bytes = 0;  // The most that a rank stages at a time; 0: all of its part of the state. With less
                                    // than that, Save() returns when the last part is staged, and all others written.
  bool verify_replicas = false;     // A save fails where ranks hold one part of a tensor with other elements.
  // Each machine keeps what its ranks hold, as a part of one checkpoint at the same path on a disk of its own; for
  // targets of the kind "dcp".
  bool node_local = false;
  bool finish_on_death = true;  // A save that all ranks have staged is written even if the job has died.
  int nice = 0;                 // From 0 to 19: how much the writer gives way to the job.
  unsigned threads = 0;         // Of staging and of the writer, from 1 to 256; 0: one for each processor.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  // Of the writer, beside the memory that is staged in.
  LoadSource source = {.path = {}};           // Without a path: how a spec is bound to the state, what is left out.
  std::vector<std::string> keep_opaque = {};  // --keep-opaque: "module.Class"
  std::string ds_config = {};                 // --ds-config: a file; empty: none.
  std::string program = {};  // The path of `ucprun`; empty: UCP_WRITER in the environment, or the one of this library.
};

// A point that a save reaches. Any thread may wait.
class SavePoint {
 public:
  bool is_done() const;                // It is reached, or the save has failed.
  void Wait() const;                   // Throws the Error of a save that has failed.
  bool WaitFor(double seconds) const;  // Whether it is reached by then. Throws as Wait() does.

 private:
  friend class Saver;
  friend struct Saving;
  class [[gnu::visibility("hidden")]] Progress;
  [[gnu::visibility("hidden")]] SavePoint(std::shared_ptr<Progress> progress, int step);

  std::shared_ptr<Progress> progress_;
  int step_;
};

// A save that goes on.
struct Saving {
  SavePoint staged;   // From then on the state may change.
  SavePoint durable;  // The checkpoint is complete at its path.
  // Waits for the end, as durable.Wait(). Returns what `ucprun convert --json` prints of a conversion.
  std::string ReportAsJson() const;
};

struct SaveChoice {
  std::optional<std::string> tag = std::nullopt;  // The checkpoint's own name; the last part of its path.
  bool force = false;                             // A folder at the path is replaced.
};

class Saver {
 public:
  // Plans, takes the memory that saves are staged in, and starts the process that writes. All ranks call it together,
  // before the job trains. `to` is a target of Convert(). `state` has all entries of later saves; numbers may be other
  // ones then. Throws Error, on all ranks if on one: kUsage, kUnsupported, kSpec, kIo or kMemory.
  Saver(const StateToSave& state, const std::string& to, const SaveSettings& settings = {});
  Saver(Saver&&) noexcept;
  Saver& operator=(Saver&&) noexcept;
  ~Saver();  // As Close(), but an error that nobody has seen is lost.

  // Of a save: what `ucprun convert --dry-run --json` prints. Where a save is staged in parts, also `waves`, their
  // number, and `wave_bytes`, the most that a rank stages at a time.
  std::string PlanAsJson() const;

  // Begins to save to the folder `path`, which appears complete or not at all. Returns at once: the tensors are read
  // until `staged`, and the values now. (With staging_bytes that are too few for all, when it is staged.) All ranks
  // make the same calls in the same order, from one thread at a time. A state with other entries is laid out anew. An
  // error of this save is thrown by what is returned. Throws the error of an earlier save that nobody has seen; this
  // one has begun all the same.
  Saving Save(const std::string& path, const StateToSave& state, const SaveChoice& choice = {});

  // Waits until nothing of the state is read any more: call it before the optimizer steps. Throws nothing of a save.
  void WaitForStaging() const;

  // Waits for saves that go on, and ends the process that writes. Throws the error of a save that nobody has seen.
  void Close();

 private:
  friend std::string Save(const StateToSave&, const std::string&, const std::string&, const SaveSettings&,
                          const SaveChoice&);
  class [[gnu::visibility("hidden")]] State;
  [[gnu::visibility("hidden")]] explicit Saver(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Saves at once: all ranks call it, and it returns what `ucprun convert --json` prints when the checkpoint is complete.
// The writer reads the ranks' memory where the system lets it, so nothing is copied. Throws Error.
std::string Save(const StateToSave& state, const std::string& path, const std::string& to,
                 const SaveSettings& settings = {}, const SaveChoice& choice = {});

}  // namespace v0
}  // namespace ucp
