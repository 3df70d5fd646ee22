// The one true form, case by case. Every case is also formatted again, and must stay.
#include "compiler/pretty/pretty.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ast/print.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

// `text` without the version, which every case would repeat.
std::string Form(const std::string& text) {
  auto source = llvm::cantFail(Source::FromText("spec.ucp", "ucp 1\n" + text));
  DiagnosticSink sink;
  auto file = ParseSpec(source, sink);
  if (!file) return RenderText(source, sink);
  std::string form = Pretty(source, *file);
  return form.starts_with("ucp 1\n") ? form.substr(6) : form;
}

void ExpectForm(const std::string& text, const std::string& form) {
  EXPECT_EQ(Form(text), form);
  EXPECT_EQ(Form(form), form) << "formatted twice";
}

TEST(PrettyTest, DimsStandBelowEachOther) {
  ExpectForm("dim a from args.x dim kv_heads from args . y , info.z else 4*a\ndim head=a/kv_heads\ndim free",
             "dim a         from args.x\n"
             "dim kv_heads  from args.y, info.z else 4 * a\n"
             "dim head    = a / kv_heads\n"
             "dim free\n");
}

TEST(PrettyTest, ALongNameWithADefinitionPushesByOneBlankOnly) {
  ExpectForm("dim long_name = a\ndim b from c.d", "dim long_name = a\ndim b           from c.d\n");
}

TEST(PrettyTest, ABlankLineEndsTheColumnsOfDimsAndACommentDoesNot) {
  ExpectForm("dim a from x.y\n// about bb\ndim bb from x.y\n\n\n\ndim cccc from x.y",
             "dim a   from x.y\n// about bb\ndim bb  from x.y\n\ndim cccc  from x.y\n");
}

TEST(PrettyTest, FactsStandWithDims) {
  ExpectForm("dim a from x.y\nfact kinds from x.z when a>2 else [ \"moe\" ]",
             "dim a       from x.y\nfact kinds  from x.z when a > 2 else [\"moe\"]\n");
}

TEST(PrettyTest, ShapesStandBelowEachOtherThroughoutALayout) {
  ExpectForm(
      "mesh pp,tp layout l{\"embed\"[a@tp,b]at pp.first,unused pp.last block\"{i:n}\"at pp[ 2 ]{\"q\"[a]\n\n"
      "optional\"bias\"[]at pp.last}}",
      "mesh pp, tp\n"
      "layout l {\n"
      "  \"embed\"            [a@tp, b] at pp.first, unused pp.last\n"
      "  block \"{i:n}\" at pp[2] {\n"
      "    \"q\"              [a]\n"
      "\n"
      "    optional \"bias\"  []        at pp.last\n"
      "  }\n"
      "}\n");
}

TEST(PrettyTest, ExpressionsHaveBlanksAroundOperatorsAndNoneElsewhere) {
  ExpectForm(
      "layout l{\"a\"[ ( 2*( f @ tp ) )@( tp , dp )( spread 64 ),pad( v,g*tp )@tp,k [ i ]-1]mean @ tp scale ( 1/tp )}",
      "layout l {\n"
      "  \"a\"  [(2 * (f@tp))@(tp, dp)(spread 64), pad(v, g * tp)@tp, k[i] - 1] mean@tp scale(1 / tp)\n"
      "}\n");
}

TEST(PrettyTest, ConditionsAreChains) {
  ExpectForm("layout l{when not(a<b)and has\"x\"{\"a\"[b]}else when k[i]==\"moe\"{}else{drop\"y\"tie\"a\"=\"b\"}}",
             "layout l {\n"
             "  when not (a < b) and has \"x\" {\n"
             "    \"a\"  [b]\n"
             "  } else when k[i] == \"moe\" {} else {\n"
             "    drop \"y\"\n"
             "    tie \"a\" = \"b\"\n"
             "  }\n"
             "}\n");
}

TEST(PrettyTest, ModelsAndStrategies) {
  ExpectForm("model m{q[a]kk[b]}layout l of m{\"w\"=[q:a+k:b]\"v\"=q}strategy s{format deepspeed;tp=4 pp=[8,8,6];}",
             "model m {\n  q   [a]\n  kk  [b]\n}\n"
             "layout l of m {\n  \"w\"  = [q: a + k: b]\n  \"v\"  = q\n}\n"
             "strategy s {\n  format deepspeed;\n  tp = 4\n  pp = [8, 8, 6];\n}\n");
}

TEST(PrettyTest, CommentsStayBehindTheirLineOrAboveTheNext) {
  ExpectForm(
      "// first  \n\n\nmesh tp// the axis\nlayout l{// of it\n\n// own line\n\"a\"[b]   // "
      "short\n\"long\"[b]//x\n\n\n// end\n\n}\n//last",
      "// first\n"
      "\n"
      "mesh tp     // the axis\n"
      "layout l {  // of it\n"
      "  // own line\n"
      "  \"a\"     [b]  // short\n"
      "  \"long\"  [b]  //x\n"
      "\n"
      "  // end\n"
      "}\n"
      "//last\n");
}

TEST(PrettyTest, CommentsInsideOfAnItemEndTheirLine) {
  ExpectForm("dim a from args.x,// the old one\nargs.y\n//why\nelse [// one\n1,2]",
             "dim a  from args.x,  // the old one\n"
             "    args.y\n"
             "    //why\n"
             "    else [  // one\n"
             "    1, 2]\n");
}

TEST(PrettyTest, ALongLineIsBrokenAtItsWeakestPlaces) {
  std::string name(50, 'n');
  std::string dim(36, 'd');
  ExpectForm(fmt::format("layout l{{\"{0}\"[{1}@tp*{1},{1}+{1}]}}", name, dim),
             fmt::format("layout l {{\n  \"{0}\"\n      [{1}@tp * {1},\n      {1} + {1}]\n}}\n", name, dim));
  std::string path(45, 'p');
  ExpectForm(fmt::format("dim x from args.{0},args.{0},args.{0} else 4", path),
             fmt::format("dim x\n    from args.{0}, args.{0},\n    args.{0} else 4\n", path));
}

TEST(PrettyTest, OneLongNameDoesNotPushTheOthers) {
  std::string name(90, 'n');
  std::string dim(60, 'd');
  ExpectForm(fmt::format("layout l{{\"{0}\"[a]\"b\"[{1}]\"cc\"[a]}}", name, dim),
             fmt::format("layout l {{\n  \"{0}\"  [a]\n  \"b\"   [{1}]\n  \"cc\"  [a]\n}}\n", name, dim));
}

TEST(PrettyTest, StringsNumbersAndLettersOutsideAsciiStay) {
  ExpectForm("layout l{\"é{ a | b }.{i+3 :n}//x\"[007]\"e\"[1]}",
             "layout l {\n  \"é{ a | b }.{i+3 :n}//x\"  [007]\n  \"e\"                       [1]\n}\n");
}

TEST(PrettyTest, OtherLineBreaksAndTheByteOrderMarkGo) {
  auto source = llvm::cantFail(Source::FromText("spec.ucp", "\xEF\xBB\xBF// a\r\nucp 1\r\n\r\n\tdim a\r\n"));
  DiagnosticSink sink;
  EXPECT_EQ(Pretty(source, *ParseSpec(source, sink)), "// a\nucp 1\n\ndim a\n");
}

}  // namespace
}  // namespace ucp
