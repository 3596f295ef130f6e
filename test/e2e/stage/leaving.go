// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
)

// leaving has the tenants of tests that run, and the namespaces of tests that have ended.
type leaving struct {
	mu         sync.Mutex
	tenants    map[*testing.T][]*scene.Tenant
	namespaces []*corev1.Namespace
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

// beside returns the names of the tenants of tests that run beside t. It leaves out the tenants of
// tests that t is a part of.
func (l *leaving) beside(t *testing.T) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, tenants := range l.tenants {
		if strings.HasPrefix(t.Name()+"/", other.Name()+"/") {
			continue
		}
		for _, tenant := range tenants {
			names = append(names, tenant.Name)
		}
	}
	return names
}

// emptied notes a namespace that has nothing of Alioth's any more.
func (l *leaving) emptied(namespace *corev1.Namespace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.namespaces = append(l.namespaces, namespace)
}

// AwaitLeft waits until the namespaces of tests that have ended are gone. Kubernetes takes ten
// seconds for an empty namespace, so no test waits for its own namespace. The suite waits at its
// end, and so does a test that looks at the whole cluster.
func (e *Env) AwaitLeft(ctx context.Context) error {
	e.leaving.mu.Lock()
	namespaces := slices.Clone(e.leaving.namespaces)
	e.leaving.mu.Unlock()
	var failures []error
	for _, namespace := range namespaces {
		failures = append(failures, e.WaitGone(ctx, namespace))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("namespaces of tests that have ended: %w", err)
	}
	return nil
}
