// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store"
)

// Checked is a row that can contradict itself. Check is pure, and returns an error for a row
// that no node can program.
type Checked interface{ Check() error }

// Reasons why an object has no row of its own in the store, the values of a metric's label.
const (
	// Unreadable is the reason of an object with a text that can't be read.
	Unreadable = "unreadable"
	// Contradiction is the reason of a row that contradicts itself.
	Contradiction = "contradiction"
	// Conflict is the reason of a row that contradicts an older one, such as a second holder
	// of one address.
	Conflict = "conflict"
)

// Reasons lists all reasons.
func Reasons() []string { return []string{Unreadable, Contradiction, Conflict} }

// LeftOut is an object that the store does not have as the API has it.
type LeftOut struct {
	Kind *Kind
	ID
	// Reason is one of Reasons, Why explains it. Why quotes at most a few bytes of users.
	Reason, Why string
	// Deleting is true for an object that is being deleted, as far as that is known. Its
	// finalizer has to go.
	Deleting bool
}

// NewLeftOut explains why an object is left out, by the error of Kind.Row or Kind.Put.
func NewLeftOut(kind *Kind, id ID, err error) LeftOut {
	reason := Unreadable
	switch {
	case errors.Is(err, errContradiction):
		reason = Contradiction
	case errors.Is(err, store.ErrConflict):
		reason = Conflict
	}
	return LeftOut{Kind: kind, ID: id, Reason: reason, Why: quote.Bounded(err.Error(), longestWhy)}
}

// longestWhy bounds LeftOut.Why in bytes.
const longestWhy = 256

// Object names the object in messages.
func (l LeftOut) Object() string {
	if l.Namespace == "" {
		return l.Kind.Name + " " + l.Name
	}
	return l.Kind.Name + " " + l.Namespace + "/" + l.Name
}

// String explains in a sentence why the object is left out, with the remedy.
func (l LeftOut) String() string {
	return fmt.Sprintf("%s is left out: %s; correct or delete it", l.Object(), l.Why)
}

var errContradiction = errors.New("contradicts itself")

// check returns an error for a row that contradicts itself.
func check(kind string, row any) error {
	checked, ok := row.(Checked)
	if !ok {
		return nil
	}
	if err := checked.Check(); err != nil {
		return fmt.Errorf("the %s %w: %w", kind, errContradiction, err)
	}
	return nil
}
