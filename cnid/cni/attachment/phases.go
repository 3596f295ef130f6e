// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import "context"

// phase has the indexes of attachments that are made side by side.
type phase struct {
	indexes []int
	// whole: each function runs to its end, also after a failure of others. Otherwise the first
	// failure ends all.
	whole bool
}

// phasesOf returns the phases of a request. The interfaces of Alioth's own drivers come
// first. Those that CNI plugins make for networks of DANM come together, so that a pod
// learns of all their failures. Those for definitions come one by one, and the first failure
// ends them (NPWG 1.3, sections 7.2 and 7.3).
func phasesOf(decisions []Decision) []phase {
	var own, danm phase
	var definitions []phase
	danm.whole = true
	for i, d := range decisions {
		switch {
		case d.Delegate == nil:
			own.indexes = append(own.indexes, i)
		case d.Delegate.InOrder:
			definitions = append(definitions, phase{indexes: []int{i}})
		default:
			danm.indexes = append(danm.indexes, i)
		}
	}
	var phases []phase
	for _, p := range append([]phase{own, danm}, definitions...) {
		if len(p.indexes) > 0 {
			phases = append(phases, p)
		}
	}
	return phases
}

// run makes the attachments of a phase, and returns all failures.
func (p phase) run(ctx context.Context, one func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(p.indexes))
	atOnce(len(p.indexes), func(i int) {
		if errs[i] = one(ctx, p.indexes[i]); errs[i] != nil && !p.whole {
			cancel()
		}
	})
	return failure(errs)
}
