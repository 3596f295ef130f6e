// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyhandler

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retryAfter is when a pass comes again whose rows were older than the objects. Usually the
// newer rows come first.
const retryAfter = time.Second

// errStale reports that a decision was made on rows that are older than the objects.
var errStale = errors.New("the object is newer than the row")

func stale(kind, name string) error { return fmt.Errorf("%s %s: %w", kind, name, errStale) }

// isStale reports whether an error goes away with newer rows.
func isStale(err error) bool {
	return errors.Is(err, errStale) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsNotFound(err)
}

// several collects the errors of writes that do not depend on each other. A stale one counts if
// it is the only kind of error.
type several struct {
	stale  error
	others []error
}

func (s *several) add(err error) {
	switch {
	case err == nil:
	case isStale(err):
		s.stale = err
	default:
		s.others = append(s.others, err)
	}
}

func (s *several) err() error {
	if len(s.others) > 0 {
		return errors.Join(s.others...)
	}
	return s.stale
}

// until is the time from now until a moment, at least a millisecond; zero for the zero
// moment.
func until(moment, now time.Time) time.Duration {
	if moment.IsZero() {
		return 0
	}
	return max(moment.Sub(now), time.Millisecond)
}
