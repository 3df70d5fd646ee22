#include "compiler/parse/tree_builder.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/parse/expression_builder.h"
#include "compiler/parse/tokens.h"
#include "compiler/support/check.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

class TreeBuilder {
 public:
  using Parser = ExpressionBuilder::Parser;

  TreeBuilder(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink), expressions_(source, sink) {}

  ast::File BuildFile(Parser::FileContext& rule);

 private:
  // Nothing if the sink got an error from it.
  std::optional<ast::Declaration> BuildSoundDeclaration(Parser::DeclarationContext& rule);
  std::optional<ast::Item> BuildSoundItem(Parser::ItemContext& rule);

  template <typename Definition>
  static ast::Declaration NameOnly(SourceRange range, const Definition& definition);

  ast::Declaration BuildDeclaration(Parser::DeclarationContext& rule);
  template <typename Definition>
  Definition BuildDefinition(Parser::NameContext& name, Parser::OriginContext& origin);
  ast::MetadataPath BuildPath(Parser::PathContext& rule);
  ast::Layout BuildLayout(Parser::LayoutContext& rule);
  ast::Model BuildModel(Parser::ModelContext& rule);
  ast::Strategy BuildStrategy(Parser::StrategyContext& rule);
  ast::Include BuildInclude(Parser::IncludeContext& rule);

  std::vector<ast::Item> BuildBody(Parser::BodyContext& rule);
  ast::Item BuildItem(Parser::ItemContext& rule);
  std::optional<ast::Item> BuildBlock(Parser::ItemContext& rule);
  ast::Tensor BuildTensor(Parser::ItemContext& rule);
  void CheckIsBefore(antlr4::tree::TerminalNode& marker, std::string_view what, antlr4::ParserRuleContext& subject);
  void AddQualifier(ast::Tensor& tensor, Parser::QualifierContext& rule);
  ast::Shape BuildShape(Parser::ShapeContext& rule);
  ast::Stages BuildStages(Parser::StagesContext& rule);
  ast::Stage BuildStage(Parser::StageContext& rule);
  ast::When BuildWhen(Parser::WhenContext& rule);
  ast::Expr BuildBranchCondition(Parser::ExprContext& rule);

  void Report(DiagnosticKind kind, SourceRange range, std::string message, std::string hint = {});

  const Source& source_;
  DiagnosticSink& sink_;
  ExpressionBuilder expressions_;
  std::uint32_t previous_end_ = 0;  // Where the item before the present one ends.
};

void TreeBuilder::Report(DiagnosticKind kind, SourceRange range, std::string message, std::string hint) {
  sink_.Report({.kind = kind, .place = range, .message = std::move(message), .hint = std::move(hint)});
}

ast::File TreeBuilder::BuildFile(Parser::FileContext& rule) {
  ast::File file;
  antlr4::Token& number = *rule.version()->NUMBER()->getSymbol();
  file.version_range = RangeOf(*rule.version());
  file.version = expressions_.BuildNumber(number);
  if (file.version != kLanguageVersion) {
    Report(DiagnosticKind::kUnsupportedVersion, RangeOf(number),
           fmt::format("the spec is written in version {} of the language, and this compiler reads version {}",
                       file.version, kLanguageVersion));
  }
  for (auto* declaration : rule.declaration()) {
    if (auto built = BuildSoundDeclaration(*declaration)) file.declarations.push_back(std::move(*built));
  }
  return file;
}

template <typename Definition>
ast::Declaration TreeBuilder::NameOnly(SourceRange range, const Definition& definition) {
  Definition known;
  known.name = definition.name;
  return {range, std::move(known)};
}

// The items of a layout are left out one by one.
std::optional<ast::Declaration> TreeBuilder::BuildSoundDeclaration(Parser::DeclarationContext& rule) {
  std::size_t errors_before = sink_.error_count();
  ast::Declaration declaration = BuildDeclaration(rule);
  const bool sound = sink_.error_count() == errors_before || std::holds_alternative<ast::Layout>(declaration.node);
  if (sound) return declaration;
  // Its name is there to be used, and nothing is known of its value.
  if (auto* dim = std::get_if<ast::Dim>(&declaration.node)) return NameOnly(declaration.range, *dim);
  if (auto* fact = std::get_if<ast::Fact>(&declaration.node)) return NameOnly(declaration.range, *fact);
  return std::nullopt;
}

ast::Declaration TreeBuilder::BuildDeclaration(Parser::DeclarationContext& rule) {
  SourceRange range = RangeOf(rule);
  if (auto* dim = rule.dim()) return {range, BuildDefinition<ast::Dim>(*dim->name(), *dim->origin())};
  if (auto* fact = rule.fact()) return {range, BuildDefinition<ast::Fact>(*fact->name(), *fact->origin())};
  if (auto* layout = rule.layout()) return {range, BuildLayout(*layout)};
  if (auto* model = rule.model()) return {range, BuildModel(*model)};
  if (auto* strategy = rule.strategy()) return {range, BuildStrategy(*strategy)};
  if (auto* include = rule.include()) return {range, BuildInclude(*include)};
  UCP_CHECK(rule.mesh() != nullptr, "an unknown declaration `{}`", source_.TextOf(range));
  ast::Mesh mesh;
  for (auto* name : rule.mesh()->name()) mesh.axes.push_back(BuildIdentifier(*name));
  return {range, std::move(mesh)};
}

template <typename Definition>
Definition TreeBuilder::BuildDefinition(Parser::NameContext& name, Parser::OriginContext& origin) {
  Definition definition;
  definition.name = BuildIdentifier(name);
  for (auto* path : origin.path()) definition.from.push_back(BuildPath(*path));
  if (origin.definition != nullptr) definition.definition = expressions_.Build(*origin.definition);
  if (origin.condition != nullptr) definition.condition = expressions_.Build(*origin.condition);
  if (origin.fallback != nullptr) definition.otherwise = expressions_.Build(*origin.fallback);
  return definition;
}

ast::MetadataPath TreeBuilder::BuildPath(Parser::PathContext& rule) {
  ast::MetadataPath path{.range = RangeOf(rule), .segments = {}};
  for (auto* child : rule.children) {
    if (auto* word = dynamic_cast<Parser::WordContext*>(child)) path.segments.push_back(BuildIdentifier(*word));
    auto* terminal = dynamic_cast<antlr4::tree::TerminalNode*>(child);
    if (terminal != nullptr && terminal->getSymbol()->getType() == Parser::NUMBER) {
      path.segments.push_back({RangeOf(*terminal->getSymbol()), terminal->getText()});
    }
  }
  return path;
}

ast::Layout TreeBuilder::BuildLayout(Parser::LayoutContext& rule) {
  ast::Layout layout;
  layout.name = BuildIdentifier(*rule.name(0));
  if (rule.OF() != nullptr) layout.model = BuildIdentifier(*rule.name(1));
  layout.items = BuildBody(*rule.body());
  return layout;
}

ast::Model TreeBuilder::BuildModel(Parser::ModelContext& rule) {
  ast::Model model;
  model.name = BuildIdentifier(*rule.name());
  for (auto* part : rule.part()) model.parts.push_back({BuildIdentifier(*part->name()), BuildShape(*part->shape())});
  return model;
}

ast::Strategy TreeBuilder::BuildStrategy(Parser::StrategyContext& rule) {
  ast::Strategy strategy;
  strategy.name = BuildIdentifier(*rule.name());
  for (auto* setting : rule.setting()) {
    antlr4::Token& key = *setting->getStart();
    strategy.settings.push_back(
        {RangeOf(*setting), ast::Identifier{RangeOf(key), key.getText()}, expressions_.Build(*setting->expr())});
  }
  return strategy;
}

ast::Include TreeBuilder::BuildInclude(Parser::IncludeContext& rule) {
  return {RangeOf(*rule.string()), expressions_.BuildPlainText(*rule.string())};
}

std::vector<ast::Item> TreeBuilder::BuildBody(Parser::BodyContext& rule) {
  std::vector<ast::Item> items;
  previous_end_ = RangeOf(*rule.getStart()).end;
  for (auto* item : rule.item()) {
    if (auto built = BuildSoundItem(*item)) items.push_back(std::move(*built));
    previous_end_ = RangeOf(*item).end;
  }
  return items;
}

// Of blocks and branches only what decides about all items in them: those are left out one by one.
std::optional<ast::Item> TreeBuilder::BuildSoundItem(Parser::ItemContext& rule) {
  if (rule.block() != nullptr) return BuildBlock(rule);
  std::size_t errors_before = sink_.error_count();
  ast::Item item = BuildItem(rule);
  if (sink_.error_count() == errors_before || std::holds_alternative<ast::When>(item.node)) return item;
  return std::nullopt;
}

std::optional<ast::Item> TreeBuilder::BuildBlock(Parser::ItemContext& rule) {
  Parser::BlockContext& written = *rule.block();
  std::size_t errors_before = sink_.error_count();
  ast::Block block;
  block.optional = rule.OPTIONAL() != nullptr;
  if (block.optional) CheckIsBefore(*rule.OPTIONAL(), "its block", written);
  block.name = expressions_.BuildPattern(*written.string());
  if (written.stages() != nullptr) block.stages = BuildStages(*written.stages());
  const bool sound = sink_.error_count() == errors_before;
  block.items = BuildBody(*written.body());
  if (!sound) return std::nullopt;
  return {{RangeOf(rule), std::move(block)}};
}

ast::Item TreeBuilder::BuildItem(Parser::ItemContext& rule) {
  SourceRange range = RangeOf(rule);
  if (rule.tensor() != nullptr) return {range, BuildTensor(rule)};
  if (auto* when = rule.when()) return {range, BuildWhen(*when)};
  if (auto* include = rule.include()) return {range, BuildInclude(*include)};
  if (auto* interleave = rule.interleave()) return {range, ast::Interleave{expressions_.Build(*interleave->expr())}};
  if (auto* drop = rule.drop()) return {range, ast::Drop{expressions_.BuildPattern(*drop->string())}};
  auto* tie = rule.tie();
  UCP_CHECK(tie != nullptr, "an unknown item `{}`", source_.TextOf(range));
  ast::Tie node;
  node.left = expressions_.BuildPattern(*tie->string(0));
  node.right = expressions_.BuildPattern(*tie->string(1));
  if (tie->stages() != nullptr) node.stages = BuildStages(*tie->stages());
  return {range, std::move(node)};
}

ast::Tensor TreeBuilder::BuildTensor(Parser::ItemContext& rule) {
  Parser::TensorContext& written = *rule.tensor();
  ast::Tensor tensor;
  tensor.optional = rule.OPTIONAL() != nullptr;
  tensor.buffer = written.BUFFER() != nullptr;
  antlr4::tree::TerminalNode* marker = tensor.optional ? rule.OPTIONAL() : written.BUFFER();
  if (marker != nullptr) CheckIsBefore(*marker, "the name of its tensor", *written.string());
  tensor.name = expressions_.BuildPattern(*written.string());
  tensor.assigned = written.ASSIGN() != nullptr;
  if (!tensor.assigned) {
    tensor.shape = BuildShape(*written.shape());
  } else if (std::optional<ast::Tensor> of_part = expressions_.BuildPartInOrder(*written.expr())) {
    tensor.part = std::move(of_part->part);
    tensor.shape = std::move(of_part->shape);
    tensor.has_own_order = true;
  } else {
    ast::Expr value = expressions_.Build(*written.expr());
    auto* list = std::get_if<ast::List>(&value.node);
    if (list != nullptr && !value.parenthesized) {
      tensor.shape = {value.range, std::move(list->elements)};
    } else {
      tensor.part = std::move(value);
    }
  }
  for (auto* qualifier : written.qualifier()) AddQualifier(tensor, *qualifier);
  return tensor;
}

// Line breaks mean nothing, so in
//   "a" [hidden] optional
//   "b" [hidden]
// the word belongs to b, which is hardly what was meant.
void TreeBuilder::CheckIsBefore(antlr4::tree::TerminalNode& marker, std::string_view what,
                                antlr4::ParserRuleContext& subject) {
  SourceRange word = RangeOf(*marker.getSymbol());
  std::uint32_t line = source_.LineOf(word.begin);
  bool behind_another = source_.LineOf(previous_end_) == line;
  bool before_its_own = source_.LineOf(RangeOf(subject).begin) == line;
  if (behind_another && !before_its_own) {
    Report(DiagnosticKind::kMisplacedOptional, word,
           fmt::format("`{}` stands at the end of a line, and belongs to the next one", marker.getText()),
           fmt::format("write it before {}, on the same line", what));
  }
}

void TreeBuilder::AddQualifier(ast::Tensor& tensor, Parser::QualifierContext& rule) {
  SourceRange range = RangeOf(rule);
  auto report_second = [&](SourceRange first) {
    sink_.Report({.kind = DiagnosticKind::kDuplicateQualifier,
                  .place = range,
                  .message = fmt::format("the tensor has `{}` already", rule.getStart()->getText()),
                  .notes = {{first, "here"}}});
  };
  if (auto* stages = rule.stages()) {
    if (tensor.stages) return report_second(tensor.stages->range);
    tensor.stages = BuildStages(*stages);
  } else if (auto* mean = rule.mean()) {
    if (tensor.mean) return report_second(tensor.mean->range);
    tensor.mean = ast::Mean{range, expressions_.BuildAxes(*mean->axes())};
  } else if (auto* scale = rule.scale()) {
    if (tensor.scale) return report_second(tensor.scale->range);
    tensor.scale = ast::Scale{range, expressions_.Build(*scale->expr())};
  } else {
    if (tensor.offset) return report_second(tensor.offset->range);
    auto& shift = *rule.shift();
    const std::int64_t number = expressions_.BuildNumber(*shift.NUMBER()->getSymbol());
    tensor.offset = ast::Offset{range, shift.MINUS() == nullptr ? number : -number};
  }
}

ast::Shape TreeBuilder::BuildShape(Parser::ShapeContext& rule) {
  return {RangeOf(rule), expressions_.BuildElements(rule.elements())};
}

ast::Stages TreeBuilder::BuildStages(Parser::StagesContext& rule) {
  ast::Stages stages{.range = RangeOf(rule), .stages = {}};
  for (auto* stage : rule.stage()) stages.stages.push_back(BuildStage(*stage));
  return stages;
}

ast::Stage TreeBuilder::BuildStage(Parser::StageContext& rule) {
  ast::Stage stage;
  stage.range = RangeOf(rule);
  stage.unused = rule.UNUSED() != nullptr;
  stage.axis = BuildIdentifier(*rule.name());
  if (rule.expr() != nullptr) {
    stage.kind = ast::StageKind::kNumber;
    stage.number.push_back(expressions_.Build(*rule.expr()));
    return stage;
  }
  std::string which = rule.NAME()->getText();
  stage.kind = which == "last" ? ast::StageKind::kLast : ast::StageKind::kFirst;
  if (which != "first" && which != "last") {
    auto nearest = NearestWord(which, std::vector<std::string>{"first", "last"});
    Report(DiagnosticKind::kBadStage, RangeOf(*rule.NAME()->getSymbol()), fmt::format("there is no stage `{}`", which),
           nearest ? fmt::format("did you mean `{}`?", *nearest)
                   : fmt::format("a stage is `{0}.first`, `{0}.last` or a number, as in `{0}[2]`", stage.axis.text));
  }
  return stage;
}

ast::When TreeBuilder::BuildWhen(Parser::WhenContext& rule) {
  ast::When when;
  ast::Expr first = BuildBranchCondition(*rule.expr());
  when.branches.push_back({std::move(first), BuildBody(*rule.body())});
  bool has_last = false;
  for (auto* otherwise : rule.otherwise()) {
    if (has_last) {
      Report(DiagnosticKind::kUnexpectedToken, RangeOf(*otherwise->getStart()), "an `else` follows the last `else`");
    }
    std::vector<ast::Item> items = BuildBody(*otherwise->body());
    if (otherwise->expr() != nullptr) {
      when.branches.push_back({BuildBranchCondition(*otherwise->expr()), std::move(items)});
    } else {
      when.otherwise = std::move(items);
      has_last = true;
    }
  }
  return when;
}

// The items behind a condition that is wrong are looked at as if it held.
ast::Expr TreeBuilder::BuildBranchCondition(Parser::ExprContext& rule) {
  std::size_t errors_before = sink_.error_count();
  ast::Expr condition = expressions_.Build(rule);
  if (sink_.error_count() == errors_before) return condition;
  return {.range = condition.range, .node = ast::Boolean{true}};
}

}  // namespace

ast::File BuildTree(grammar::UcpParser::FileContext& file, const Source& source, DiagnosticSink& sink) {
  return TreeBuilder(source, sink).BuildFile(file);
}

}  // namespace ucp
