#include "compiler/infer/write_draft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/printable.h"

namespace ucp {
namespace {

class Writer {
 public:
  void Heading(const DraftHeading& heading, const Observation& observation) {
    std::string mesh = ToString(heading.mesh);
    Line(0, fmt::format("// Drafted by `ucpc infer` from the headers of {} ({}{}{}){}.", Printable(heading.folder),
                        heading.format, mesh.empty() ? "" : ", ", mesh,
                        heading.elsewhere.empty() ? "" : fmt::format(" and of {}", Printable(heading.elsewhere))));
    if (!heading.embedded.empty()) {
      Line(0, fmt::format("// The cuts are those that `universal_checkpoint_info` in {} states.",
                          Printable(heading.embedded)));
    }
    if (observation.tp == 1 && observation.elsewhere_tp == 1) {
      Line(0,
           "// At tp=1 nothing is cut, and headers cannot tell what another degree would cut. Layers with the usual");
      Line(0,
           "// names have the usual cuts, as questions; write @tp behind the other factors that tensor parallelism "
           "splits.");
    }
  }

  void Declarations(const std::vector<std::string>& dims, const Mesh& mesh) {
    Line(0, "ucp 1");
    Line(0, "");
    for (const std::string& dim : dims) Line(0, dim);
    if (!dims.empty()) Line(0, "");
    std::vector<std::string> axes = {"pp", "dp", "tp"};
    for (const Axis& axis : mesh.axes) {
      if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) axes.insert(axes.end() - 1, axis.name);
    }
    Line(0, fmt::format("mesh {}", fmt::join(axes, ", ")));
    Line(0, "");
  }

  void Nodes(const std::vector<DraftNode>& nodes, int depth) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const DraftNode& node = nodes[i];
      switch (node.kind) {
        case DraftNode::Kind::kTensor:
          i = Tensors(nodes, i, depth);
          break;
        case DraftNode::Kind::kBlock:
          Body(fmt::format("block \"{}\"", node.text), node.items, depth);
          break;
        case DraftNode::Kind::kWhen:
          Body(fmt::format("when {}", node.text), node.items, depth);
          break;
      }
    }
  }

  void Line(int depth, std::string_view text) {
    if (!text.empty()) draft.text.append(static_cast<std::size_t>(2 * depth), ' ');
    draft.text += text;
    draft.text += '\n';
  }

  DraftSpec draft;

 private:
  void Body(const std::string& head, const std::vector<DraftNode>& items, int depth) {
    Line(depth, head + " {");
    Nodes(items, depth + 1);
    Line(depth, "}");
  }

  // A sentence, in lines of at most 120 columns.
  void Comment(int depth, std::string_view sentence) {
    std::size_t room = static_cast<std::size_t>(std::max(40, 117 - 2 * depth));
    while (!sentence.empty()) {
      std::size_t end = sentence.size() <= room ? sentence.size() : sentence.rfind(' ', room);
      if (end == std::string_view::npos || end == 0) end = sentence.size();
      Line(depth, "// " + std::string(sentence.substr(0, end)));
      sentence.remove_prefix(std::min(sentence.size(), end + 1));
    }
  }

  // Neighbours that differ in the last part of their names only are one line: "norm.{weight|bias}". Returns the place
  // of the last of them.
  std::size_t Tensors(const std::vector<DraftNode>& nodes, std::size_t first, int depth) {
    const DraftNode& node = nodes[first];
    std::size_t dot = node.text.rfind('.');
    std::string head = dot == std::string::npos ? "" : node.text.substr(0, dot + 1);
    std::vector<std::string> tails = {node.text.substr(head.size())};
    std::size_t last = first;
    bool plain = tails.front().find('{') == std::string::npos && !node.tensor.open && node.tensor.question.empty();
    while (plain && !head.empty() && last + 1 < nodes.size() && Alike(node, nodes[last + 1], head)) {
      tails.push_back(nodes[++last].text.substr(head.size()));
    }
    std::string name = head + (tails.size() == 1 ? tails.front() : fmt::format("{{{}}}", fmt::join(tails, "|")));
    Tensor(node.tensor, name, depth);
    return last;
  }

  static bool Alike(const DraftNode& a, const DraftNode& b, const std::string& head) {
    return b.kind == DraftNode::Kind::kTensor && b.text.starts_with(head) &&
           b.text.find_first_of(".{", head.size()) == std::string::npos && !b.tensor.open &&
           b.tensor.question.empty() && a.tensor.marker == b.tensor.marker && a.tensor.shape == b.tensor.shape &&
           a.tensor.stages == b.tensor.stages;
  }

  void Tensor(const DraftTensor& tensor, const std::string& name, int depth) {
    if (!tensor.question.empty()) {
      ++draft.questions;
      Comment(depth, "question: " + tensor.question);
    }
    if (!tensor.note.empty()) Comment(depth, tensor.note);
    std::string line = fmt::format("{}\"{}\" {}{}", tensor.marker, name, tensor.shape, tensor.stages);
    if (!tensor.open) {
      Line(depth, line);
      return;
    }
    ++draft.open_questions;
    Line(depth, "// " + line);
    for (const std::string& shape : tensor.other_shapes) {
      Line(depth, fmt::format("// {}\"{}\" {}{}", tensor.marker, name, shape, tensor.stages));
    }
  }
};

}  // namespace

DraftSpec WriteDraft(const DraftHeading& heading, const std::vector<std::string>& dims,
                     const std::vector<DraftNode>& nodes, const Observation& observation) {
  Writer writer;
  writer.Heading(heading, observation);
  writer.Declarations(dims, heading.mesh);
  writer.Line(0, "layout drafted {");
  writer.Nodes(nodes, 1);
  for (const auto& [second, first] : observation.aliases)
    writer.Line(1, fmt::format("tie \"{}\" = \"{}\"", second, first));
  writer.Line(0, "}");
  writer.draft.tensors = observation.tensors.size();
  return std::move(writer.draft);
}

}  // namespace ucp
