// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schema shows which objects the schemas of Alioth's kinds accept and refuse, on the real
// API server.
package schema_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var server apiserver.Shared

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // clients log nothing that a test would miss
	os.Exit(server.Run(m))
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(server.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// creation is a change to an object that would be accepted, and the fault that the change makes; ""
// for none.
type creation[T client.Object] struct {
	name   string
	mutate func(T)
	want   string
}

func checkCreations[T client.Object](t *testing.T, base func() T, tests []creation[T]) {
	c := newClient(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object := base()
			if tt.mutate != nil {
				tt.mutate(object)
			}
			check(t, c.Create(t.Context(), object, client.DryRunAll), tt.want)
		})
	}
}

// update is a change to an object that exists.
type update[T client.Object] struct {
	name string
	// before is done to the object before it is created, status after.
	before, status, mutate func(T)
	want                   string
}

func checkUpdates[T client.Object](t *testing.T, base func() T, tests []update[T]) {
	c := newClient(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object := base()
			if !strings.Contains(object.GetName(), ".") && object.GetNamespace() == "" {
				object.SetName(fmt.Sprintf("%s-%d", object.GetName(), i))
			}
			if tt.before != nil {
				tt.before(object)
			}
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
					t.Error(err)
				}
			})
			if tt.status != nil {
				tt.status(object)
				if err := c.Status().Update(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			tt.mutate(object)
			check(t, c.Update(t.Context(), object, client.DryRunAll), tt.want)
		})
	}
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", want)
	case want != "" && !apierrors.IsInvalid(err):
		t.Errorf("failed otherwise than by validation: %v", err)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %q, want %q in it", err, want)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
