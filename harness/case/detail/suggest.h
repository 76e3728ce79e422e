// Helpers for error texts: the nearest known word, a list of words, and text made safe to print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardfuzz::detail {

// The known word that a typing error could have turned into `word`, or "" where none is near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

// "a, b or c".
std::string listed(const std::vector<std::string_view>& words);

// The way out for a word that is not among `known`: "did you mean 'bf16'?" where one is near, and
// always the whole list: "one of fp32, bf16 or fp16".
std::string way_out(std::string_view word, const std::vector<std::string_view>& known);

// Text from a file as it may be shown on a terminal: in single quotes, at most 60 bytes, control
// characters and bytes that are no valid UTF-8 as \xNN.
std::string in_quotes(std::string_view text);

// in_quotes() without the quotes and with a limit of its own.
std::string printable(std::string_view text, std::size_t bytes_max);

// The length of the UTF-8 sequence at the start of `text`, 0 where there is none. Refuses overlong
// forms, surrogates and code points above U+10FFFF.
std::size_t utf8_length(std::string_view text);

}  // namespace shardfuzz::detail
