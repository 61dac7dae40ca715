// Package strictjson reads JSON documents from outside: manifests, indexes, configurations,
// recipes, lists of bundles. JSON lets readers differ about some documents: of two keys "config"
// one reader takes the first, another the last, and Go's encoding/json, with which container
// runtimes read, takes "Config" for it too. What is verified here must be what a node reads, so
// such a document is refused. The package knows no document.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// maxDepth bounds how deep objects and lists nest. Statements of scanners have about 15 levels.
const maxDepth = 100

var (
	errDepth    = fmt.Errorf("it nests more than %d deep", maxDepth)
	errTrailing = errors.New("something follows its end")
	errCase     = errors.New(
		"a key differs from that of the format in upper and lower case, so that programs read different things",
	)
)

// Decode reads one document. It refuses, as an error of kind failure.Content, what readers could
// understand in different ways: two equal keys in an object, a key in another case than the type's,
// text after the document, text that is not UTF-8; and deep nesting. [json.RejectUnknownMembers]
// also refuses keys that the type does not have. Values mean what they mean to encoding/json. The
// size is the caller's to bound.
func Decode[T any](raw []byte, options ...json.Options) (T, error) {
	value, err := decode[T](raw, options)
	if err != nil {
		var none T
		return none, failure.Of(failure.Content, explain(err))
	}
	return value, nil
}

func decode[T any](raw []byte, options []json.Options) (exact T, err error) {
	err = checkOutline(raw)
	if err != nil {
		return exact, err
	}
	all := json.JoinOptions(options...)
	all = json.JoinOptions(
		jsonv1.DefaultOptionsV1(),
		jsonv1.ReportErrorsWithLegacySemantics(false),
		jsontext.AllowDuplicateNames(false),
		jsontext.AllowInvalidUTF8(false),
		all,
	)
	err = json.Unmarshal(raw, &exact, all, json.MatchCaseInsensitiveNames(false))
	if err != nil {
		return exact, err
	}
	var folded T
	err = json.Unmarshal(raw, &folded, all, json.MatchCaseInsensitiveNames(true))
	if err != nil {
		return exact, err
	}
	if !reflect.DeepEqual(exact, folded) {
		return exact, errCase
	}
	return exact, nil
}

// checkOutline reads the tokens of a document, before anything recurses into it.
func checkOutline(raw []byte) error {
	tokens := jsontext.NewDecoder(bytes.NewReader(raw))
	_, err := tokens.ReadToken()
	for err == nil && tokens.StackDepth() > 0 {
		if tokens.StackDepth() > maxDepth {
			return errDepth
		}
		_, err = tokens.ReadToken()
	}
	if err != nil {
		return err
	}
	_, err = tokens.ReadToken()
	if !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

// explain names the key that a type does not have, in place of the type.
func explain(err error) error {
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if ok && errors.Is(wrong.Err, json.ErrUnknownName) {
		return fmt.Errorf("unknown field %q", wrong.JSONPointer.LastToken())
	}
	return err
}
