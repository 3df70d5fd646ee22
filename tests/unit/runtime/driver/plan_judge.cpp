#include "tests/unit/runtime/driver/plan_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "compiler/compile/plan_again.h"
#include "compiler/plan/envelope.h"
#include "compiler/support/check.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "runtime/driver/plan_to_run.h"
#include "runtime/executor/execute.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    files[name] = entry.is_directory() ? "a folder" : ReadTestFile(entry.path().string());
  }
  return files;
}

std::string Difference(const std::map<std::string, std::string>& honest,
                       const std::map<std::string, std::string>& other) {
  for (const auto& [name, content] : honest) {
    const auto found = other.find(name);
    if (found == other.end()) return name + " is missing";
    if (found->second != content) return name + " is another";
  }
  return honest.size() == other.size() ? "" : "there are more files";
}

}  // namespace

PlanJudge::PlanJudge(const AskedFor& asked) : asked_(asked), source_(folder_.Path("source")) {
  fs::copy(std::string(UCP_SOURCE_DIR) + "/tests/fixtures/" + asked.fixture + "/checkpoint", source_,
           fs::copy_options::recursive);
  CompileRequest request;
  request.source.path = source_;
  if (!asked.spec.empty()) request.source.spec = std::string(UCP_SOURCE_DIR) + "/specs/" + asked.spec + ".ucp";
  request.target = asked.target;
  PlanInputs inputs = llvm::cantFail(ReadInputs(RealFileSystem(), request));
  const Compiled compiled = llvm::cantFail(Compile(RealFileSystem(), request));
  CompleteInputs(request, compiled.source, inputs);
  honest_file_ = llvm::cantFail(EncodePlan(compiled.plan, &inputs));
  honest_ = llvm::cantFail(DecodePlanWithInputs(honest_file_));
  if (asked.contradicts_itself) DisturbACopy();
  const std::string refusal = Output(honest_file_, false, honest_output_);
  UCP_CHECK(refusal.empty() != asked.contradicts_itself, "the honest plan: {}", refusal);
}

// The first element of the first that is to be compared. Its checksum is not looked at.
void PlanJudge::DisturbACopy() const {
  const Plan& plan = honest_.plan;
  const auto read = std::find_if(plan.reads.begin(), plan.reads.end(),
                                 [](const PlanRead& one) { return one.role == ReadRole::kCompare; });
  UCP_CHECK(read != plan.reads.end(), "nothing is compared");
  const Buffer& buffer = plan.source.buffer(plan.source.buffer_set(read->states).front().buffer);
  const Fragment first =
      FragmentsOf(read->spread, read->base, plan.set(read->set).local_elements(), buffer, 0, 1).front();
  const BufferPart& part = buffer.parts[first.part];
  const std::string path = source_ + "/" + ReadTestFile(source_ + "/latest") + "/" + plan.source.file(part.record).path;
  std::string content = ReadTestFile(path);
  content[plan.source.record(part.record).begin +
          static_cast<std::uint64_t>((part.first_element + first.place) * ItemBytes(buffer.dtype))] ^= 1;
  WriteTestFile(path, content);
}

Judgement PlanJudge::Judge(const std::string& plan_file, bool is_trusted) const {
  std::map<std::string, std::string> output;
  Judgement judgement;
  judgement.refusal = Output(plan_file, is_trusted, output);
  if (!judgement.refusal.empty()) return judgement;
  judgement.difference =
      asked_.contradicts_itself ? "the contradiction is passed over" : Difference(honest_output_, output);
  return judgement;
}

std::string PlanJudge::Output(const std::string& plan_file, bool is_trusted,
                              std::map<std::string, std::string>& files) const {
  const std::string plan = folder_.Path("plan");
  WriteTestFile(plan, plan_file);
  auto run =
      PreparePlan(RealFileSystem(), RealFileSystem(), {.path = plan, .source = source_, .is_trusted = is_trusted});
  if (!run) return TakeFailure(run.takeError()).message;
  const std::string out = folder_.Path("out");
  fs::remove_all(out);
  fs::create_directory(out);
  ExecutionOptions options;
  options.source_versions = run->source_versions;
  options.verify_source_crc = !asked_.contradicts_itself;
  auto report = Execute(run->plan, run->source_folder, out, RealFileSystem(), options);
  if (!report) return TakeFailure(report.takeError()).message;
  files = FilesOf(out);
  return "";
}

std::string WithTrueEnvelope(std::string plan_file) {
  plan_file.resize(std::max(plan_file.size(), kPlanEnvelopeBytes));
  const std::string_view buffer = std::string_view(plan_file).substr(kPlanEnvelopeBytes);
  const std::uint64_t header[2] = {buffer.size(), ContentHash64(buffer)};
  std::memcpy(plan_file.data(), kPlanMagic.data(), kPlanMagic.size());
  std::memcpy(plan_file.data() + kPlanMagic.size(), header, sizeof(header));
  return plan_file;
}

}  // namespace ucp
