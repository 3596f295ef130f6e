// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds"
)

// Interval between two looks at something that is waited for.
const Interval = 200 * time.Millisecond

// Executor is the part of a lab that runs commands.
type Executor interface {
	// ExecInPod runs a command in a container of a pod, "" for the first, and returns its
	// standard output; a command that fails is an error that holds its standard error.
	ExecInPod(ctx context.Context, namespace, pod, container string, command ...string) (string, error)
	// OnHost returns the path on this host of a node's file. A node that is a virtual machine has
	// no such path.
	OnHost(node, path string) (string, error)
}

// Scene acts on one cluster.
type Scene struct {
	Client client.Client
	exec   Executor
}

// New returns a Scene on the cluster that config points to.
func New(config *rest.Config, exec Executor) (*Scene, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400
	config.WarningHandlerWithContext = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &Scene{Client: c, exec: exec}, nil
}

// Create creates objects in the order given.
func (s *Scene) Create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := s.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", nameOf(object), err)
		}
	}
	return nil
}

// Delete deletes objects, and waits until they are gone. Some of them may be gone already.
func (s *Scene) Delete(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		err := s.Client.Delete(ctx, object, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", nameOf(object), err)
		}
	}
	for _, object := range objects {
		if err := s.WaitGone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// WaitGone waits until an object does not exist. An object of the same name with another UID counts
// as gone. The error contains the finalizers and conditions of the object.
func (s *Scene) WaitGone(ctx context.Context, object client.Object) error {
	now := object.DeepCopyObject().(client.Object)
	return Until(ctx, nameOf(object)+" to be gone", func(ctx context.Context) (bool, string, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), now)
		if apierrors.IsNotFound(err) || (err == nil && now.GetUID() != object.GetUID() && object.GetUID() != "") {
			return true, "", nil
		}
		return false, fmt.Sprintf(
			"finalizers %v, deletion %v, %s",
			now.GetFinalizers(),
			now.GetDeletionTimestamp(),
			statusText(now),
		), err
	})
}

// said returns the text of an object's conditions.
func statusText(object client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	if len(conditions) == 0 {
		return "no conditions"
	}
	var words []string
	for _, one := range conditions {
		if condition, ok := one.(map[string]any); ok {
			words = append(
				words,
				fmt.Sprintf("%v=%v %v: %v", condition["type"], condition["status"], condition["reason"], condition["message"]),
			)
		}
	}
	return strings.Join(words, "; ")
}

// Until calls look until it returns done. When ctx ends first, the error contains the last text
// that look returned. An error of look ends the waiting unless it can pass by itself.
func Until(ctx context.Context, what string, look func(context.Context) (done bool, seen string, err error)) error {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	seen := "nothing yet"
	for {
		done, now, err := look(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !transient(err):
			return fmt.Errorf("wait for %s: %w", what, err)
		case err != nil && ctx.Err() == nil:
			seen = err.Error()
		case done:
			return nil
		case now != "":
			seen = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; seen last: %s", what, context.Cause(ctx), seen)
		case <-ticker.C:
		}
	}
}

// transient reports whether an error comes from an API server that is busy or starting.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// nameOf names an object for people: kind and name.
func nameOf(object client.Object) string {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	switch object.(type) {
	case *corev1.Pod:
		return "pod " + name
	case *corev1.Namespace:
		return "namespace " + name
	case *v1alpha1.VPC:
		return "VPC " + name
	case *v1alpha1.Subnet:
		return "Subnet " + name
	case *arktosv1.Network:
		return "Network " + name
	}
	return fmt.Sprintf("%T %s", object, name)
}
