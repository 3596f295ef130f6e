// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
)

func TestFilling_StoreNotFilled_MemoryLimited(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for name, end := range map[string]func(filled, ended func()){
		"the store is filled": func(filled, _ func()) { filled() },
		"the term ends":       func(_, ended func()) { ended() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, ended := context.WithCancel(t.Context())
				filled := make(chan struct{})
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					Filling{}.Limit(ctx, func(ctx context.Context) error {
						select {
						case <-filled:
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
				}()
				synctest.Wait()
				expectGarbage(t, fillingPercent, limitFor(inUse()))
				end(func() { close(filled) }, ended)
				<-returned
				expectGarbage(t, filledPercent, math.MaxInt64)
				ended()
			})
		})
	}
}

func TestFilling_EnvironmentSet_NothingChanged(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, "100")
			percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(-1)
			defer debug.SetGCPercent(percent)
			Filling{}.Limit(t.Context(), func(context.Context) error { return nil })
			expectGarbage(t, 77, limit)
		})
	}
}

// expectGarbage requires settings of the collector.
func expectGarbage(t *testing.T, percent uint64, limit int64) {
	t.Helper()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(now)
	if got := now[0].Value.Uint64(); got != percent {
		t.Errorf("there may be %d %% of garbage, want %d", got, percent)
	}
	if got := now[1].Value.Uint64(); got != uint64(limit) {
		t.Errorf("the limit of the memory is %d bytes, want %d", got, limit)
	}
}

func TestMemoryLimit_BytesInUse_Followed(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		used uint64
		want int64
	}{
		"nothing yet":              {0, 1200 * mib},
		"100,000 Addresses":        {650 * mib, 1200 * mib},
		"as much as the limit":     {1200 * mib, 1500 * mib},
		"more":                     {4000 * mib, 5000 * mib},
		"more than any memory has": {math.MaxUint64, math.MaxInt64 / 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := limitFor(c.used); got/mib != c.want/mib {
				t.Errorf("the limit is %d bytes, want %d", got, c.want)
			}
		})
	}
}
