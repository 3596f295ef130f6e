// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prose finds phrases in comments and pages that stop a reader. The rules are in
// rules.yaml. Vale has such rules too, but its modules can't be fetched from a module proxy.
package prose

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed rules.yaml
var text []byte

// Rule is a phrase with its remedy.
type Rule struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern"`
	Remedy  string `json:"remedy"`

	expression *regexp.Regexp
}

// Checker finds phrases.
type Checker struct {
	rules      []Rule
	exceptions []*regexp.Regexp
}

// New returns a checker with the rules of the repository.
func New() (*Checker, error) { return parse(text) }

func parse(document []byte) (*Checker, error) {
	var file struct {
		Rules      []Rule   `json:"rules"`
		Exceptions []string `json:"exceptions"`
	}
	if err := yaml.UnmarshalStrict(document, &file); err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	c := &Checker{}
	for _, r := range file.Rules {
		expression, err := compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		r.expression = expression
		c.rules = append(c.rules, r)
	}
	for _, pattern := range file.Exceptions {
		expression, err := compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("exception %q: %w", pattern, err)
		}
		c.exceptions = append(c.exceptions, expression)
	}
	return c, nil
}

// compile compiles a pattern. A space in it fits the end of a line too.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)" + strings.ReplaceAll(pattern, " ", `\s+`))
}

// Finding is a phrase in a file.
type Finding struct {
	File string
	Line int
	// Phrase is the text that a rule found, and Rule that rule.
	Phrase string
	Rule   Rule
}

// String returns the finding as a line for people.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %q (%s): %s", f.File, f.Line, f.Phrase, f.Rule.Name, f.Rule.Remedy)
}

// Check returns the findings in passages of a file.
func (c *Checker) Check(file string, passages []Passage) (list []Finding) {
	for _, p := range passages {
		for _, rule := range c.rules {
			for _, at := range rule.expression.FindAllStringIndex(p.Text, -1) {
				if c.excepted(p.Text, at[0]) {
					continue
				}
				line := p.Line + strings.Count(p.Text[:at[0]], "\n")
				phrase := strings.Join(strings.Fields(p.Text[at[0]:at[1]]), " ")
				list = append(list, Finding{File: file, Line: line, Phrase: phrase, Rule: rule})
			}
		}
	}
	return list
}

// excepted reports whether an exception covers the phrase that begins at an index.
func (c *Checker) excepted(passage string, begin int) bool {
	for _, e := range c.exceptions {
		for _, at := range e.FindAllStringIndex(passage, -1) {
			if at[0] <= begin && begin < at[1] {
				return true
			}
		}
	}
	return false
}
