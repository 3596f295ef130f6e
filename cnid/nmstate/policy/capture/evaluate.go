// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// Evaluate evaluates all expressions, by the names of the captures, on the current state. An
// expression can refer to others as capture.<name>; their order is by dependency. The states are
// JSON values with the names of a state document.
//
// cached are results of an earlier evaluation. A cached result replaces the evaluation of the
// expression with its name, so a policy means the same after it was applied in part. Other
// results are ignored.
//
// A result is the state that the expression selects. Errors have the capture's name and the
// column of the expression; all syntax errors come at once.
func Evaluate(
	expressions map[string]string,
	current map[string]any,
	cached map[string]map[string]any,
) (map[string]map[string]any, error) {
	parsed, err := parseAll(expressions)
	if err != nil {
		return nil, err
	}
	e := &evaluation{
		parsed: parsed, current: current, cached: cached,
		results: make(map[string]map[string]any, len(parsed)), budget: newBudget(),
	}
	for _, captured := range slices.Sorted(maps.Keys(parsed)) {
		if err := e.need(captured); err != nil {
			return nil, err
		}
	}
	return e.results, nil
}

// parseAll reads the expressions, and refuses references to captures that don't exist.
func parseAll(expressions map[string]string) (map[string][]stage, error) {
	if len(expressions) > maxCaptures {
		return nil, fmt.Errorf("capture: %d expressions, more than %d", len(expressions), maxCaptures)
	}
	parsed := make(map[string][]stage, len(expressions))
	var faults []error
	for _, captured := range slices.Sorted(maps.Keys(expressions)) {
		if err := checkName(captured); err != nil {
			faults = append(faults, err)
			continue
		}
		stages, err := parse(expressions[captured])
		if err == nil {
			err = checkReferences(stages, expressions)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("capture %s: %w", quote.Name(captured), err))
		}
		parsed[captured] = stages
	}
	return parsed, errors.Join(faults...)
}

func checkReferences(stages []stage, expressions map[string]string) error {
	for _, s := range stages {
		for _, r := range []*reference{&s.path, s.value.reference} {
			if r == nil || r.capture == "" {
				continue
			}
			if _, ok := expressions[r.capture]; !ok {
				return faultf(r.column, "no capture has the name %q", r.capture)
			}
		}
	}
	return nil
}

// evaluation is one call of Evaluate.
type evaluation struct {
	parsed  map[string][]stage
	current map[string]any
	cached  map[string]map[string]any
	results map[string]map[string]any
	// open are the captures whose evaluation waits for the evaluation of the next one.
	open   []string
	budget *budget
}

// need makes the result of a capture, unless there is one. The error names the capture.
func (e *evaluation) need(captured string) error {
	if _, done := e.results[captured]; done {
		return nil
	}
	state, ok := e.cached[captured]
	if !ok {
		var err error
		if state, err = e.evaluate(captured); err != nil {
			return err
		}
	}
	// The result shares nothing with the inputs or with other results.
	result, err := e.budget.copyObject(state)
	if err != nil {
		return fmt.Errorf("capture %s: %w", quote.Name(captured), err)
	}
	if result == nil {
		result = map[string]any{}
	}
	e.results[captured] = result
	return nil
}

func (e *evaluation) evaluate(captured string) (map[string]any, error) {
	e.open = append(e.open, captured)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	state := e.current
	for _, s := range e.parsed[captured] {
		// Other captures come first: an error in one of them has the name of that capture.
		if err := e.needAll(captured, s); err != nil {
			return nil, err
		}
		var err error
		if state, err = e.apply(s, state); err != nil {
			return nil, fmt.Errorf("capture %s: %w", quote.Name(captured), err)
		}
	}
	return state, nil
}

// needAll makes the results that a stage refers to.
func (e *evaluation) needAll(captured string, s stage) error {
	for _, r := range []*reference{&s.path, s.value.reference} {
		if r == nil || r.capture == "" {
			continue
		}
		if at := slices.Index(e.open, r.capture); at >= 0 {
			cycle := strings.Join(append(slices.Clone(e.open[at:]), r.capture), " -> ")
			return fmt.Errorf(
				"capture %s: %w",
				captured,
				faultf(r.column, "the captures refer to each other in a cycle: %s", cycle),
			)
		}
		if err := e.need(r.capture); err != nil {
			return err
		}
	}
	return nil
}

// apply makes the state after a stage from the one before it.
func (e *evaluation) apply(s stage, state map[string]any) (map[string]any, error) {
	if s.path.capture != "" {
		state = e.results[s.path.capture]
	}
	if s.operator == "" {
		return keep(state, s.path.steps)
	}
	value, column, err := e.value(s.value)
	if err != nil {
		return nil, err
	}
	if s.operator == assign {
		return replace(state, s.path.steps, value, e.budget)
	}
	return filter(state, s.path.steps, comparison{value: value, column: column, negated: s.operator == unequal})
}

// value returns the value of an operand. The column is 0 for a literal.
func (e *evaluation) value(o operand) (value any, column int, err error) {
	if o.reference == nil {
		return o.literal, 0, nil
	}
	value, err = resolve(*o.reference, e.results)
	return value, o.reference.column, err
}
