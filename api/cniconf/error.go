// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniconf

// Error is a refused configuration.
type Error struct {
	// Where names the source of the configuration. Field is the path of the refused field, for example
	// "plugins[0].ipam.type", "" for the whole text.
	Where, Field string
	// Problem is the cause, Remedy the way to correct it.
	Problem, Remedy string
}

// Error names file, field, cause and remedy.
func (e *Error) Error() string {
	text := e.Where + ": "
	if e.Field != "" {
		text += e.Field + ": "
	}
	return text + e.Problem + "; " + e.Remedy
}

// Wrong returns the refusal of a field.
func (l *List) Wrong(field, problem, remedy string) error {
	return &Error{Where: l.Where, Field: field, Problem: problem, Remedy: remedy}
}
