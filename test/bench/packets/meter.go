// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package packets

import (
	"context"
	"fmt"
	"time"

	"github.com/alioth-net/alioth/test/bench/figures"
)

// Meter measures jobs in rounds.
type Meter struct {
	rounds int
	// span is how long one rate is measured.
	span time.Duration
	step func(string)
}

// NewMeter returns a Meter of a number of rounds. It measures each rate for a span of time, and
// reports each round to step.
func NewMeter(rounds int, span time.Duration, step func(string)) Meter {
	return Meter{rounds: rounds, span: span, step: step}
}

// Measure measures every job over every path, round by round, so that a disturbance of the machine
// for a while disturbs all paths. It returns the rows of the jobs.
func (m Meter) Measure(ctx context.Context, what string, jobs []Job) ([]*figures.Row, error) {
	return m.MeasureInTurns(ctx, what, jobs, 1)
}

// MeasureInTurns does the same as Measure, and divides each round into turns, with a share of the
// time each. The kernel puts each turn's processes on processors anew, and whether a client shares
// its server's makes more of a difference than most paths do.
func (m Meter) MeasureInTurns(ctx context.Context, what string, jobs []Job, turns int) ([]*figures.Row, error) {
	for round := range m.rounds {
		m.step(fmt.Sprintf("%s: round %d of %d", what, round+1, m.rounds))
		for _, j := range jobs {
			for turn := range turns {
				if err := j.measureOnce(ctx, round+turn, m.span/time.Duration(turns)); err != nil {
					return nil, err
				}
			}
		}
	}
	rows := make([]*figures.Row, len(jobs))
	for i := range jobs {
		rows[i] = jobs[i].row
	}
	return rows, nil
}
