// The tree says where rows begin and where their cells end; the words are then dealt out to them, one after the other.
// So no word can be lost or change its place: a row that the tree did not announce would only be a longer row.
#include "compiler/pretty/rows.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ucp::pretty {
namespace {

// The parts of a row that the tree knows: the ends of its cells but the last, and with which rows it shares columns.
struct Announcement {
  std::vector<std::uint32_t> cell_ends;
  std::optional<ColumnGroup> group;
};

using Announcements = std::map<std::uint32_t, Announcement>;  // By the first byte of the row.

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// Tensors share columns throughout their layout, also with those in its blocks; dims and facts up to a blank line,
// which the words show and the tree does not.
class Announcer {
 public:
  Announcements Run(const ast::File& file) {
    rows_[file.version_range.begin] = {};
    for (const ast::Declaration& declaration : file.declarations) {
      ++group_;
      std::visit(Overloaded{[&](const ast::Layout& layout) {
                              Add(declaration.range);
                              AddItems(layout.items);
                            },
                            [&](const ast::Model& model) {
                              Add(declaration.range);
                              for (const ast::Part& part : model.parts) {
                                rows_[part.name.range.begin] = {{part.name.range.end}, group_};
                              }
                            },
                            [&](const ast::Strategy& strategy) {
                              Add(declaration.range);
                              for (const ast::Setting& setting : strategy.settings) {
                                rows_[setting.range.begin] = {{setting.key.range.end}, std::nullopt};
                              }
                            },
                            [&](const ast::Dim& dim) { AddDefinition(declaration.range, dim.name); },
                            [&](const ast::Fact& fact) { AddDefinition(declaration.range, fact.name); },
                            [&](const ast::Mesh&) { Add(declaration.range); },
                            [&](const ast::Include&) { Add(declaration.range); }},
                 declaration.node);
    }
    return std::move(rows_);
  }

 private:
  void Add(SourceRange range) { rows_[range.begin] = {}; }

  void AddDefinition(SourceRange range, const ast::Identifier& name) {
    rows_[range.begin] = {{name.range.end}, group_};
  }

  void AddItems(const std::vector<ast::Item>& items) {
    for (const ast::Item& item : items) {
      Add(item.range);
      if (const auto* tensor = std::get_if<ast::Tensor>(&item.node)) {
        SourceRange size = tensor->part ? tensor->part->range : tensor->shape.range;
        rows_[item.range.begin] = {{tensor->name.range.end, size.end}, group_};
      } else if (const auto* block = std::get_if<ast::Block>(&item.node)) {
        AddItems(block->items);
      } else if (const auto* when = std::get_if<ast::When>(&item.node)) {
        for (const ast::Branch& branch : when->branches) AddItems(branch.items);
        AddItems(when->otherwise);
      }
    }
  }

  Announcements rows_;
  ColumnGroup group_ = 0;
};

class RowSplitter {
 public:
  explicit RowSplitter(Announcements announcements) : announcements_(std::move(announcements)) {}

  std::vector<Row> Run(const std::vector<Word>& words) {
    for (const Word& word : words) {
      if (word.kind == WordKind::kComment) {
        comments_.push_back(word);
      } else {
        Take(word);
      }
    }
    FlushComments();
    return std::move(rows_);
  }

 private:
  void Take(const Word& word) {
    auto announced = announcements_.find(word.begin);
    bool closes = word.text == "}";
    if (closes && comments_.empty() && !rows_.empty() && rows_.back().words.back().text == "{") {
      --depth_;
      rows_.back().words.push_back(word);  // {}
      return;
    }
    if (announced != announcements_.end() || closes) {
      FlushComments();
      if (closes) --depth_;
      Begin(word, announced == announcements_.end() ? Announcement() : announced->second);
    } else {
      Continue(word);
    }
    if (word.text == "{") ++depth_;
  }

  void Begin(const Word& word, Announcement announcement) {
    bool closes = word.text == "}";
    rows_.push_back({.depth = depth_,
                     .blank_line_before = word.blank_line_before && !rows_.empty() && !closes && !AfterBrace(),
                     .words = {word},
                     .cells = {},
                     .group = announcement.group,
                     .comment = {}});
    cell_ends_ = std::move(announcement.cell_ends);
  }

  // The words of a row may have comments between them, which stay where they are.
  void Continue(const Word& word) {
    Row& row = rows_.back();
    row.words.insert(row.words.end(), comments_.begin(), comments_.end());
    comments_.clear();
    while (row.cells.size() < cell_ends_.size() && word.begin >= cell_ends_[row.cells.size()]) {
      row.cells.push_back(row.words.size());
    }
    row.words.push_back(word);
  }

  bool AfterBrace() const { return rows_.back().words.back().text == "{"; }

  // The row is complete: what stood behind its last word belongs to it, the other comments have rows of their own.
  void FlushComments() {
    for (const Word& comment : comments_) {
      if (!comment.first_on_line) {
        rows_.back().comment = comment.text;
        continue;
      }
      rows_.push_back({.depth = depth_,
                       .blank_line_before = comment.blank_line_before && !rows_.empty() && !AfterBrace(),
                       .words = {comment},
                       .cells = {},
                       .group = {},
                       .comment = {}});
    }
    comments_.clear();
  }

  Announcements announcements_;
  std::vector<Row> rows_;
  std::vector<Word> comments_;  // Seen, and not dealt out yet.
  std::vector<std::uint32_t> cell_ends_;
  std::size_t depth_ = 0;
};

// A blank line ends the columns of dims and facts; neighbouring ones share them.
void JoinDefinitions(std::vector<Row>& rows) {
  std::optional<ColumnGroup> current;
  for (Row& row : rows) {
    bool is_definition = row.words.front().text == "dim" || row.words.front().text == "fact";
    if (row.blank_line_before || !(is_definition || row.is_comment())) current.reset();
    if (!is_definition || row.depth > 0) continue;
    if (!current) current = row.group;
    row.group = current;
  }
}

}  // namespace

std::vector<Row> SplitRows(const Source& source, const ast::File& file) {
  std::vector<Row> rows = RowSplitter(Announcer().Run(file)).Run(SplitWords(source));
  JoinDefinitions(rows);
  return rows;
}

}  // namespace ucp::pretty
