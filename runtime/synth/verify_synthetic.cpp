#include "runtime/synth/verify_synthetic.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/elements/element_text.h"
#include "runtime/executor/visit_sink.h"
#include "runtime/resources/resident_memory.h"
#include "runtime/same_states/source_digests.h"
#include "runtime/synth/synthetic_comparison.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

class Findings {
 public:
  Findings(const Plan& plan, const std::string& root) : plan_(plan), root_(root), steps_(plan) {}

  // Sorted by tensor and state. Several ranks may have written a file.
  llvm::Expected<std::vector<std::string>> Sentences(const SyntheticComparison& compared, Communicator& ranks) const {
    UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks.AllGather(Encode(compared)));
    std::map<std::uint64_t, WrongElements> by_number;
    for (const std::string& encoded : all) {
      wire::ByteReader reader(encoded);
      while (!reader.left().empty() && !reader.has_failed()) Join(reader, by_number);
      if (reader.has_failed()) return Fail(ErrorCode::kIo, "the ranks run different versions of ucp");
    }
    std::vector<std::string> sentences;
    std::uint64_t number = 0;
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      if (const auto wrong = by_number.find(number++); wrong != by_number.end()) {
        sentences.push_back(Sentence(range, wrong->second));
      }
    });
    return sentences;
  }

 private:
  // By the number of the range, of which there is one for each record.
  std::string Encode(const SyntheticComparison& compared) const {
    wire::ByteWriter mine;
    std::uint64_t number = 0;
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      const auto wrong = compared.wrong().find(range.record);
      if (wrong != compared.wrong().end()) {
        mine.Add(number);
        mine.Add(wrong->second.count);
        mine.Add(static_cast<std::uint64_t>(wrong->second.first));
        for (const std::vector<std::byte>* element : {&wrong->second.was, &wrong->second.should_be}) {
          mine.Add(std::string_view(reinterpret_cast<const char*>(element->data()), element->size()));
        }
      }
      ++number;
    });
    return mine.bytes();
  }

  static void Join(wire::ByteReader& reader, std::map<std::uint64_t, WrongElements>& by_number) {
    const std::uint64_t number = reader.Number();
    WrongElements found;
    found.count = reader.Number();
    found.first = static_cast<std::int64_t>(reader.Number());
    for (std::vector<std::byte>* element : {&found.was, &found.should_be}) {
      const std::string text = reader.Text();
      const auto bytes = std::as_bytes(std::span(text));
      element->assign(bytes.begin(), bytes.end());
    }
    WrongElements& known = by_number[number];
    const std::uint64_t count = known.count + found.count;
    if (known.count == 0 || found.first < known.first) known = std::move(found);
    known.count = count;
  }

  std::string Sentence(const TargetRange& range, const WrongElements& wrong) const {
    const LogicalTensor& tensor = plan_.tensor(plan_.writes[range.write].first_tensor()).logical;
    return fmt::format("{}[{}] `{}` is {} and should be {}, {}; {} of {} wrong", tensor.name,
                       fmt::join(IndexOf(wrong.first, tensor.shape), ","), range.state,
                       ElementText(range.dtype, wrong.was.data()), ElementText(range.dtype, wrong.should_be.data()),
                       Place(range, wrong.first), WithThousands(wrong.count),
                       Counted(static_cast<std::uint64_t>(range.end - range.begin), "element"));
  }

  // Where the source has it.
  std::string Place(TargetRange range, std::int64_t element) const {
    range.record_element += element - range.begin;
    range.begin = element;
    range.end = element + 1;
    std::string place = "in no file";
    steps_.ForEachStep(range, [&](const Step& step) {
      if (step.role != ReadRole::kCopy || step.term != 0) return;
      const std::uint64_t offset = plan_.source.record(step.source).begin +
                                   static_cast<std::uint64_t>(step.source_element * ItemBytes(step.source_dtype));
      place = fmt::format("in `{}` at byte {}", JoinPath(root_, plan_.source.file(step.source).path), offset);
    });
    return place;
  }

  const Plan& plan_;
  const std::string& root_;
  StepEnumerator steps_;
};

}  // namespace

llvm::Expected<SyntheticCheck> CheckSynthetic(ReadableFileSystem& files, const SourceRequest& request,
                                              const ExecutionOptions& options, FilesOfAllRanks* nodes) {
  Communicator& ranks = options.ranks == nullptr ? SingleProcess() : *options.ranks;
  UCP_ASSIGN_OR_RETURN(WholeStatesRun whole, ShareWholeStates(files, request, options, nodes));
  const PlannedRun& run = whole.run;
  UCP_ASSIGN_OR_RETURN(SyntheticComparison compared, SyntheticComparison::Make(run.plan));
  SyntheticCheck check;
  ExecutionOptions without_checksums = options;
  without_checksums.verify_source_crc = false;  // Each element is known, which says more than that some byte is wrong.
  UCP_RETURN_IF_ERROR(Agree(ranks, CountResidentMemory(run.plan, nodes, without_checksums)));
  auto compare = [&](const TargetRange& range, std::span<const std::byte> bytes) { compared.Compare(range, bytes); };
  UCP_ASSIGN_OR_RETURN(check.source.report, Visit(run.plan, run.source_folder, files, without_checksums, compare));
  UCP_ASSIGN_OR_RETURN(check.wrong, Findings(run.plan, run.source_folder).Sentences(compared, ranks));
  for (const RoundingMismatch& mismatch : check.source.report.rounding_mismatches) {
    check.wrong.push_back(fmt::format("{} of `{}` are not the rounding of their masters; the first: {}",
                                      Counted(mismatch.elements, "weight"), mismatch.tensor, mismatch.first));
  }
  check.source.tensors = std::move(whole.tensors);
  check.source.run = std::move(whole.run);
  check.source.layout = std::move(whole.layout);
  check.source.offsets = std::move(whole.offsets);
  return check;
}

}  // namespace ucp
