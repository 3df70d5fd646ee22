// One column of one group at a time, the second cells before the third. The column stands behind the longest first
// cell. If that makes some row too long, the row with the longest first cell is left out, and the rest is tried again:
// one long name does not push all shapes to the right edge.
#include "compiler/pretty/columns.h"

#include <algorithm>
#include <map>

namespace ucp::pretty {
namespace {

// One row on its way into a column.
struct Member {
  std::size_t row = 0;
  std::size_t word = 0;   // The first of the cell.
  std::size_t end = 0;    // Of the cell before.
  std::size_t rest = 0;   // The width from the cell on.
  std::size_t reach = 0;  // How far the cell begins left of the column: `= 4` beside `from a`.
};

std::size_t ColumnBehind(const Member& member, std::size_t blanks) { return member.end + blanks + member.reach; }

bool IsTooLong(const Member& member, std::size_t column) { return column - member.reach + member.rest > kLineWidth; }

// Members are sorted, the longest first; leaves those that share the column.
std::size_t ChooseColumn(std::vector<Member>& members, const std::vector<std::vector<Gap>>& gaps) {
  for (;;) {
    const Member& longest = members.front();
    std::size_t column = ColumnBehind(longest, gaps[longest.row][longest.word].blanks);
    bool some_row_is_too_long =
        std::any_of(members.begin(), members.end(), [&](const Member& member) { return IsTooLong(member, column); });
    if (!some_row_is_too_long) return column;
    auto shorter = std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return ColumnBehind(member, gaps[member.row][member.word].blanks) != column;
    });
    members.erase(members.begin(), shorter);
    if (members.empty()) return 0;
  }
}

class Aligner {
 public:
  Aligner(const std::vector<Row>& rows, std::vector<std::vector<Gap>>& gaps) : rows_(rows), gaps_(gaps) {}

  void Align(std::size_t cell) {
    std::map<ColumnGroup, std::vector<Member>> groups;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      if (!row.group || row.cells.size() <= cell || HasComments(row)) continue;
      if (Width(row, gaps_[i]) <= kLineWidth) groups[*row.group].push_back(MakeMember(i, row.cells[cell], cell));
    }
    for (auto& [group, members] : groups) AlignGroup(members);
  }

 private:
  static bool HasComments(const Row& row) {
    return std::any_of(row.words.begin(), row.words.end(),
                       [](const Word& word) { return word.kind == WordKind::kComment; });
  }

  Member MakeMember(std::size_t index, std::size_t word, std::size_t cell) const {
    const Row& row = rows_[index];
    Member member{.row = index, .word = word, .end = kIndent * row.depth, .rest = 0, .reach = 0};
    for (std::size_t i = 0; i < row.words.size(); ++i) {
      std::size_t blanks = i == 0 || i == word ? 0 : gaps_[index][i].blanks;
      (i < word ? member.end : member.rest) += blanks + Width(row.words[i].text);
    }
    bool is_definition = row.words.front().text == "dim" || row.words.front().text == "fact";
    if (cell == 0 && is_definition && row.words[word].text == "=") member.reach = kIndent;
    return member;
  }

  void AlignGroup(std::vector<Member>& members) {
    // An `=` needs one blank before it only, as what it reaches for stands two further on.
    for (const Member& member : members) {
      if (member.reach > 0) gaps_[member.row][member.word].blanks = 1;
    }
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      return ColumnBehind(a, gaps_[a.row][a.word].blanks) > ColumnBehind(b, gaps_[b.row][b.word].blanks);
    });
    std::size_t column = ChooseColumn(members, gaps_);
    for (const Member& member : members) {
      gaps_[member.row][member.word].blanks = column - member.reach - member.end;
    }
  }

  const std::vector<Row>& rows_;
  std::vector<std::vector<Gap>>& gaps_;
};

}  // namespace

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t Width(const Row& row, const std::vector<Gap>& gaps) {
  std::size_t width = kIndent * row.depth;
  for (std::size_t i = 0; i < row.words.size(); ++i) width += (i == 0 ? 0 : gaps[i].blanks) + Width(row.words[i].text);
  return width;
}

void AlignCells(const std::vector<Row>& rows, std::vector<std::vector<Gap>>& gaps) {
  Aligner aligner(rows, gaps);
  aligner.Align(0);
  aligner.Align(1);
}

}  // namespace ucp::pretty
