// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// The texts of all failures of a pod's interfaces have maxFailures bytes together, because
// an event has room for 1024. Each has at least leastFailure.
const (
	maxFailures  = 720
	leastFailure = 96
)

// failures are the failures of several interfaces of a pod.
type failures []error

// Error has a part of each text.
func (f failures) Error() string {
	share := max(leastFailure, maxFailures/len(f))
	texts := make([]string, len(f))
	for i, err := range f {
		text := err.Error()
		if notReady, ok := errors.AsType[*NotReady](err); ok {
			text = notReady.Reason
		}
		texts[i] = quote.Bounded(text, share)
	}
	return fmt.Sprintf("%d interfaces failed: %s", len(f), strings.Join(texts, "; "))
}

// Unwrap returns the failures.
func (f failures) Unwrap() []error { return f }

// failure joins errors in their order, without errors that are only the cancellation for another
// one. If one of them may be over soon, the whole may be.
func failure(errs []error) error {
	all := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	causes := slices.DeleteFunc(slices.Clone(all), func(err error) bool { return errors.Is(err, context.Canceled) })
	if len(causes) == 0 {
		causes = all
	}
	switch len(causes) {
	case 0:
		return nil
	case 1:
		return causes[0] // unchanged, for callers that look for its type
	}
	joined := failures(causes)
	if _, ok := errors.AsType[*NotReady](joined); ok {
		return &NotReady{Reason: joined.Error()}
	}
	return joined
}
