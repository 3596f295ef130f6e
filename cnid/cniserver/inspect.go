// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"

	"github.com/alioth-net/alioth/cnid/journal"
)

// Inspect compares the interface of every finished attachment with the journal,
// as CHECK does, and returns what is wrong by attachment. It changes nothing,
// and waits for no command that is at work.
func (s *Server) Inspect(ctx context.Context) map[journal.Key]error {
	broken := map[journal.Key]error{}
	for _, rec := range s.cfg.Journal.Records() {
		if rec.Phase != journal.PhaseDone {
			continue
		}
		if _, err := s.intact(ctx, rec); err != nil {
			broken[rec.Key] = err
		}
	}
	return broken
}
