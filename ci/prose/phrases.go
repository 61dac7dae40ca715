package main

import (
	"regexp"
	"strings"
)

// phrase is wording that a reader stumbles over, and what to write instead.
type phrase struct {
	pattern *regexp.Regexp
	instead string
}

// phrases has no entry that good English needs: what has a proper use somewhere is left to the reviewer.
var phrases = []phrase{
	say(`but for`, `"except"`),
	say(`save for`, `"except"`),
	say(`(made|make|makes|making) (it |them )?anew`, `"recreate"`),
	say(`anew`, `"again"`),
	say(`(cannot|can not|could not|can) be had( from)?`, `"is not available", "could not be downloaded": say what fails`),
	say(`(is|are|was|were) had from`, `"comes from"`),
	say(`where that cannot be`, `"if that is not possible"`),
	say(`whoever`, `"anyone who", or name the actor`),
	say(`what is told( of)?`, `what the message contains`),
	say(`(is|are|was|were)? ?told of`, `who reports what: "the error names"`),
	say(`the one that it has at any time`, `"the current one"`),
	say(`(is|are|were|was) there none`, `"if there is no ..."`),
	say(`foretells?|foretold`, `"predicts"`),
	say(`their last word`, `what they report at the end`),
	say(`has the nodes`, `"controls the nodes"`),
	say(`has it end`, `"ends"`),
	say(`gives what`, `"returns the ..."`),
	say(`are all of it`, `what the function returns`),
	say(`nothing else is allowed than`, `"only ... is allowed"`),
	say(`which the (\w+ )+has not`, `"which ... does not have"`),
	say(`has not got`, `"does not have"`),
	say(`(as|if|when|where) (it|they|that|there) (has|have) not`, `"does not have"`),
	say(`lest`, `"so that ... not"`),
	say(`whence|wherefrom|whereof|thereof|therein|whereto|hither|thither|thence`, `"from which", "of it", "in it"`),
	say(`in its stead|in their stead`, `"instead"`),
	say(`albeit`, `"although"`),
	say(`be it`, `"whether it is"`),
	say(`as it were`, `nothing: delete it`),
	say(`by (its|their) own (self|selves)`, `"by itself"`),
}

// say makes a phrase of a pattern whose blanks stand for blanks and line breaks. A capital letter at its
// start is the same phrase.
func say(pattern, instead string) phrase {
	pattern = strings.ReplaceAll(pattern, " ", `\s+`)
	return phrase{pattern: regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), instead: instead}
}
