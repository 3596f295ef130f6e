// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"strconv"

	"github.com/alioth-net/alioth/api/quote"
)

// captureRoot is the first name of a path into the results of captures.
const captureRoot = "capture"

// step is one of a path: a field of an object, or an index of a list.
type step struct {
	field string
	// index is the index of an entry of a list, from 0, if field is "".
	index  int
	column int
}

func (s step) isIndex() bool { return s.field == "" }

func (s step) String() string {
	if s.isIndex() {
		return strconv.Itoa(s.index)
	}
	return s.field
}

// reference is a path that can begin in the result of a capture.
type reference struct {
	// capture is "" for the state that the expression applies to.
	capture string
	// column is the column of the capture's name.
	column int
	steps  []step
}

// operand is the right side of an operator.
type operand struct {
	// literal is a string, a float64 or a bool.
	literal any
	// reference has priority. It is always into a capture.
	reference *reference
}

// stage is an expression between pipes. Without an operator it keeps the part of the
// state that its path leads to.
type stage struct {
	path reference
	// operator is equal, unequal, assign, or "".
	operator kind
	value    operand
}

// parser reads tokens.
type parser struct{ tokens []token }

// parse reads an expression: stages with pipes between them.
func parse(expression string) ([]stage, error) {
	tokens, err := lex(expression, 1)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	var stages []stage
	for {
		s, err := p.stage(len(stages) == 0)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		if p.peek().kind == end {
			return stages, nil
		}
		if err := p.pipe(len(stages)); err != nil {
			return nil, err
		}
	}
}

// parseReference reads a path into a capture, as templates have it.
func parseReference(path string, column int) (reference, error) {
	tokens, err := lex(path, column)
	if err != nil {
		return reference{}, err
	}
	p := &parser{tokens: tokens}
	r, err := p.captureReference()
	if err != nil {
		return reference{}, err
	}
	_, err = p.expect(end, `"." or the end`)
	return r, err
}

func (p *parser) peek() token { return p.tokens[0] }

// take returns the next token. The end stays.
func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) expect(k kind, words string) (token, error) {
	t := p.take()
	if t.kind != k {
		return t, faultf(t.column, "expected %s, found %s", words, t)
	}
	return t, nil
}

// pipe takes the pipe after some stages.
func (p *parser) pipe(stages int) error {
	t, err := p.expect(pipe, `an operator, "|" or the end`)
	if err != nil {
		return err
	}
	if stages == maxStages {
		return faultf(t.column, "more than %d expressions in a pipe", maxStages)
	}
	return nil
}

func (p *parser) stage(first bool) (stage, error) {
	path, err := p.reference()
	if err != nil {
		return stage{}, err
	}
	if path.capture != "" && !first {
		return stage{}, faultf(path.column, "a capture is only possible before the first pipe")
	}
	s := stage{path: path}
	operator := p.peek()
	switch operator.kind {
	case equal, unequal, assign:
		s.operator = p.take().kind
		if s.value, err = p.operand(); err != nil {
			return stage{}, err
		}
	}
	return s, checkStage(s, operator.column)
}

func (p *parser) operand() (operand, error) {
	const words = "expected a text in double quotes, a number, true, false or capture.<name>"
	switch t := p.peek(); {
	case t.kind == text:
		return operand{literal: p.take().literal}, nil
	case t.kind == number:
		value, err := strconv.ParseFloat(p.take().literal, 64)
		if err != nil {
			return operand{}, &fault{column: t.column, cause: err}
		}
		return operand{literal: value}, nil
	case t.kind == name && (t.literal == "true" || t.literal == "false"):
		return operand{literal: p.take().literal == "true"}, nil
	case t.kind == name && t.literal == captureRoot:
		r, err := p.captureReference()
		return operand{reference: &r}, err
	default:
		return operand{}, faultf(t.column, "%s, found %s", words, t)
	}
}

// captureReference is a path that has to begin in a capture.
func (p *parser) captureReference() (reference, error) {
	if t := p.peek(); t.kind != name || t.literal != captureRoot {
		return reference{}, faultf(t.column, "expected capture.<name>, found %s", t)
	}
	return p.reference()
}

func (p *parser) reference() (reference, error) {
	first, err := p.expect(name, "a path like interfaces.name or capture.<name>")
	if err != nil {
		return reference{}, err
	}
	r := reference{column: first.column}
	if first.literal != captureRoot {
		r.steps = []step{{field: first.literal, column: first.column}}
	} else if r.capture, r.column, err = p.captureName(); err != nil {
		return reference{}, err
	}
	for p.peek().kind == dot {
		p.take()
		s, err := p.step()
		if err != nil {
			return reference{}, err
		}
		if r.steps = append(r.steps, s); len(r.steps) > maxSteps {
			return reference{}, faultf(s.column, "the path has more than %d steps", maxSteps)
		}
	}
	return r, nil
}

func (p *parser) captureName() (captured string, column int, err error) {
	if _, err := p.expect(dot, `"." and the name of a capture`); err != nil {
		return "", 0, err
	}
	t, err := p.expect(name, "the name of a capture")
	return t.literal, t.column, err
}

func (p *parser) step() (step, error) {
	t := p.take()
	switch t.kind {
	case name:
		return step{field: t.literal, column: t.column}, nil
	case number:
		index, err := strconv.Atoi(t.literal)
		if err != nil {
			return step{}, &fault{column: t.column, cause: err}
		}
		return step{index: index, column: t.column}, nil
	default:
		return step{}, faultf(t.column, `expected a field's name or an index after ".", found %s`, t)
	}
}

// checkName refuses a name of a capture that no expression could refer to.
func checkName(captured string) error {
	tokens, err := lex(captured, 1)
	if err != nil || len(tokens) != 2 || tokens[0].kind != name || tokens[0].literal != captured {
		return fmt.Errorf("capture %s: a name has letters, digits, - and _, and begins with a letter", quote.Text(captured))
	}
	return nil
}
