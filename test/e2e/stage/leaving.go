// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"sync"
	"testing"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// leaving are the tenants that tests have, until a test ends.
type leaving struct {
	mu      sync.Mutex
	tenants map[*testing.T][]*scene.Tenant
}

func (l *leaving) add(t *testing.T, tenant *scene.Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenants == nil {
		l.tenants = map[*testing.T][]*scene.Tenant{}
	}
	l.tenants[t] = append(l.tenants[t], tenant)
}

// take returns a test's tenants, once.
func (l *leaving) take(t *testing.T) []*scene.Tenant {
	l.mu.Lock()
	defer l.mu.Unlock()
	tenants := l.tenants[t]
	delete(l.tenants, t)
	return tenants
}
