// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// forged is how many packets of each kind the tests send.
const forged = 5

// dropCount reads how many packets were dropped so far, by reason.
type dropCount func(t *testing.T) map[string]float64

// dropsOf counts the packets of a VPC that a node drops. A packet of an unknown VPC counts for the
// VPC "".
func (e *env) dropsOf(node, vpc string) dropCount {
	return func(t *testing.T) map[string]float64 {
		t.Helper()
		return e.Drops(t, node, vpc)
	}
}

// waitCounted waits until a counter, or all counters with that prefix if it
// ends in "_", grew by at least forged packets since before.
func (e *env) waitCounted(t *testing.T, count dropCount, before map[string]float64, reason string) {
	t.Helper()
	err := scene.Until(within(t, answerTime), fmt.Sprintf("%d packets counted as %s", forged, reason), func(context.Context) (bool, string, error) {
		grown := growth(before, count(t))
		return sumOf(grown, reason) >= forged, fmt.Sprintf("growth since then %v", grown), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// growth returns the growth of each counter. Counters that did not grow are left out.
func growth(before, after map[string]float64) map[string]float64 {
	grown := map[string]float64{}
	for reason, value := range after {
		if value != before[reason] {
			grown[reason] = value - before[reason]
		}
	}
	return grown
}

func sumOf(counters map[string]float64, reason string) float64 {
	if !strings.HasSuffix(reason, "_") {
		return counters[reason]
	}
	var sum float64
	for name, value := range counters {
		if strings.HasPrefix(name, reason) {
			sum += value
		}
	}
	return sum
}
