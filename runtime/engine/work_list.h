// All the work of a plan as a list of chunks, ordered by where they lie in the target's files. A chunk is a part of one
// target range that fits a thread's buffer, or several small ranges that do together: those of one file, with no more
// than a header between neighbours. They are written in one go. Only the ranges are stored; chunks are counted, and
// computed when asked for. A run that goes on where another one stopped has a list of the rest: how all elements are
// ordered does not depend on how large chunks are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/engine/element_intervals.h"
#include "runtime/engine/share_out.h"
#include "runtime/engine/source_waves.h"

namespace ucp {

// Returns how many elements of a written shard's range are a chunk of at most `chunk_bytes` in either of its dtypes: as
// many whole rows (or planes, or whatever the outermost dimensions that do not fit consist of) as fit. A chunk that
// begins and ends within a row has more steps.
std::int64_t ElementsOfChunk(const Plan& plan, const TargetRange& range, std::uint64_t chunk_bytes);

struct FileWork {
  std::uint32_t chunks = 0;
  bool is_begun = false;  // Some of its elements are left out.
};

// Bytes of a target file that neither elements nor ready-made bytes fill: padding, which stays zero.
struct FileHole {
  FileId file;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class WorkList {
 public:
  // No chunk is larger than `chunk_bytes` in either of its dtypes, which must hold at least one element of any dtype;
  // the bytes between the ranges of a chunk count. The plan must outlive this. The elements of `done` are left out;
  // Unite() made it, and it ends within the plan's elements. So are the parts of other ranks. The chunks of one of the
  // `waves` of the source come before those of the next; null: all of the source is there.
  WorkList(const Plan& plan, std::uint64_t chunk_bytes, const std::vector<ElementInterval>& done = {},
           const TargetShare& share = {}, const SourceWaves* waves = nullptr);

  std::uint64_t chunks() const { return chunks_; }
  std::uint64_t FirstChunkOf(std::uint64_t wave) const;  // Of a wave behind the last, and those behind it: chunks().
  std::uint64_t element_bytes() const;                   // Of all chunks, as they are written.
  // Returns the ranges of a chunk, in the order of their places. Of more than one each begins in memory where a number
  // may, if the first does.
  std::vector<TargetRange> chunk(std::uint64_t number) const;

  // Returns how many chunks each file has, and what of it is left out, by FileId.
  std::vector<FileWork> WorkOfFiles() const;

  // Returns the holes of all files of the plan, of all ranks, by file and place.
  const std::vector<FileHole>& holes() const { return holes_; }

  // Adds the elements of the chunks [first, end).
  void AddElements(std::uint64_t first, std::uint64_t end, std::vector<ElementInterval>& intervals) const;

  // Memory that a list for this plan takes.
  static std::uint64_t Bytes(const Plan& plan);

 private:
  // A TargetRange in less space: there can be millions.
  struct Range {
    std::uint32_t write = 0;
    std::uint32_t state = 0;
    RecordId record;
    DType dtype = DType::kFloat32;
    DType source_dtype = DType::kFloat32;
    std::uint32_t wave = 0;
    std::int64_t record_element = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint64_t first_chunk = 0;    // That of the range before, if they share one.
    std::uint64_t first_element = 0;  // Of all of the plan.
  };

  Range Compact(const TargetRange& range);
  void AddByPlace();
  void FindHoles();
  void SortByWave(const SourceWaves& waves);
  void NumberChunks();
  bool JoinsChunk(const Range& first, const Range& last, const Range& next) const;
  std::vector<Range>::const_iterator FirstOf(std::uint64_t number) const;
  TargetRange PartOf(const Range& range, std::int64_t begin, std::int64_t end) const;
  std::uint64_t ChunksOf(const Range& range) const;
  std::uint64_t FileOffset(const Range& range) const;
  void LeaveOut(const std::vector<ElementInterval>& done);
  void KeepShare(const TargetShare& share);
  std::uint32_t StateNumber(const std::string& state);

  const Plan& plan_;
  const std::uint64_t chunk_bytes_;
  std::uint64_t chunks_ = 0;
  std::vector<std::string> states_;
  std::vector<Range> ranges_;
  std::vector<bool> begun_;  // By FileId; empty: none.
  std::vector<FileHole> holes_;
};

}  // namespace ucp
