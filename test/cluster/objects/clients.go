// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Clients are the clients that a lab has for its API server.
type Clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// Connect makes the clients from a kubeconfig. It does not wait for
// the API server.
func Connect(kubeconfig string) (*Clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the lab's kubeconfig: %w", err)
	}
	config.QPS = -1 // a test is the only client and wants its answer now
	// The API server is on a link of this machine, behind no proxy.
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a dynamic client: %w", err)
	}
	return &Clients{
		config: config, typed: typed, dynamic: dyn,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery())),
	}, nil
}

// Config returns the administrator's client configuration; change a copy only.
func (c *Clients) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns a client with the administrator's rights.
func (c *Clients) Client() kubernetes.Interface { return c.typed }

// Dynamic returns a client for objects of any kind.
func (c *Clients) Dynamic() dynamic.Interface { return c.dynamic }

// fieldManager owns the fields that Apply sets.
const fieldManager = "alioth-lab"

// Apply creates or updates the objects of a manifest of one or more YAML
// documents by server-side apply, in their order. Objects of a namespaced kind
// without a namespace go to "default".
func (c *Clients) Apply(ctx context.Context, manifest []byte) error {
	return c.each(manifest, func(object *unstructured.Unstructured, client dynamic.ResourceInterface) error {
		_, err := client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
}

// Delete deletes the objects of a manifest, in reverse order. It ignores an object that is gone
// already; the others may exist for a moment longer.
func (c *Clients) Delete(ctx context.Context, manifest []byte) error {
	var deletions []func() error
	err := c.each(manifest, func(object *unstructured.Unstructured, client dynamic.ResourceInterface) error {
		deletions = append(deletions, func() error {
			err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
		return nil
	})
	for i := len(deletions) - 1; i >= 0; i-- {
		err = errors.Join(err, deletions[i]())
	}
	return err
}

// each calls fn for every object of a manifest with a client for its kind.
func (c *Clients) each(manifest []byte, fn func(*unstructured.Unstructured, dynamic.ResourceInterface) error) error {
	objects, err := ParseManifest(manifest)
	if err != nil {
		return err
	}
	for _, object := range objects {
		client, err := c.clientFor(object)
		if err != nil {
			return err
		}
		if err := fn(object, client); err != nil {
			return err
		}
	}
	return nil
}

// ParseManifest splits YAML documents and skips empty ones.
func ParseManifest(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split the manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("parse the manifest: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func (c *Clients) clientFor(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		// The kind may have come after the last look.
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", gvk, err)
	}
	resource := c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return resource, nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return resource.Namespace(namespace), nil
}
