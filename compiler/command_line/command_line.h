// The common parts of both programs' command lines.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "compiler/compile/compile_request.h"
#include "compiler/describe/request_texts.h"

namespace ucp {

// Parses and runs. Help and version print and return 0; a wrong command line prints one sentence (usage_message.h) and
// where to read more, and returns 1.
//
// Of several processes that a launcher started with the same words, only the first one says this. A later one that is
// still there a while after a wrong command line was given other words than the first, and says what is wrong with
// them.
int RunCommandLine(CLI::App& app, const std::string& program, int argc, char** argv, const int& exit_code,
                   bool is_later_rank = false);

// --config, --set; a checkpoint may have a configuration of its own.
void AddSpecOptions(CLI::App& command, SourceTexts& options, bool has_checkpoint = true);
void AddSourceOptions(CLI::App& command, SourceTexts& options);  // These, --unused and --prefer-rank.

// --drop-state NAME
void AddDropStateOption(CLI::App& command, SourceTexts& options);

// --tag, --keep-opaque, --ds-config
void AddTargetOptions(CLI::App& command, TargetSettings& options);

// --replicas compare|trust
void AddReplicasOption(CLI::App& command, ReplicaPolicy& replicas);

}  // namespace ucp
