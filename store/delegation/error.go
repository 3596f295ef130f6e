// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package delegation

// Error is a refused configuration.
type Error struct {
	// Where is that of the Request. Field is the path of the refused field, for example
	// "plugins[0].ipam.type", "" for the whole text.
	Where, Field string
	// Problem is the cause, Remedy what to do.
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

func (l *list) wrong(field, problem, remedy string) error {
	return &Error{Where: l.where, Field: field, Problem: problem, Remedy: remedy}
}
