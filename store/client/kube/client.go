// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	kjson "sigs.k8s.io/json"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is a list of API objects.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// RequestTimeout bounds one request to the API server, where the caller has no bound
// of its own.
const RequestTimeout = 10 * time.Second

// Client talks to one API server, in JSON. Its methods may be called from any goroutine. The
// resource of a request follows from the object's Go type, which the scheme must know, and from
// its name and namespace. A refusal by the server is an apierrors.APIStatus.
type Client struct {
	scheme   *runtime.Scheme
	versions map[schema.GroupVersion]rest.Interface
}

// New returns a client for all kinds of the scheme, and does not talk to the API
// server yet. The configuration's rate is for all requests together but streams,
// which are opened once and last.
func New(config *rest.Config, scheme *runtime.Scheme) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Wrap(newOneDial)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if config.RateLimiter == nil && config.QPS >= 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(
			cmp.Or(config.QPS, rest.DefaultQPS), cmp.Or(config.Burst, rest.DefaultBurst))
	}
	c := &Client{scheme: scheme, versions: map[schema.GroupVersion]rest.Interface{}}
	for _, version := range scheme.PrioritizedVersionsAllGroups() {
		config.GroupVersion, config.APIPath = &version, "/apis"
		if version.Group == "" {
			config.APIPath = "/api"
		}
		if c.versions[version], err = rest.RESTClientForConfigAndClient(config, transport); err != nil {
			return nil, fmt.Errorf("make API client for %s: %w", version, err)
		}
	}
	return c, nil
}

// Get reads the object of obj's name and namespace into obj. obj has no other fields.
func (c *Client) Get(ctx context.Context, obj Object) error {
	request, err := c.one(http.MethodGet, obj)
	if err != nil {
		return err
	}
	return answer(ctx, request, obj)
}

// GetOnce does the same as Get for a caller that rather goes without the object than load the API
// server. It makes no second attempt after a refusal or a lost connection. The configuration's rate
// does not hold it up, so that it delays no other request; the caller has a rate of its own.
func (c *Client) GetOnce(ctx context.Context, obj Object) error {
	request, err := c.one(http.MethodGet, obj)
	if err != nil {
		return err
	}
	return answer(ctx, request.MaxRetries(0).Throttle(flowcontrol.NewFakeAlwaysRateLimiter()), obj)
}

// List reads all objects in a namespace ("" for all, and for kinds without) that
// the field selector (in the API's syntax, "" for all) selects into the list.
func (c *Client) List(ctx context.Context, list runtime.Object, namespace, fields string) error {
	request, err := c.to(http.MethodGet, list, namespace)
	if err != nil {
		return err
	}
	if fields != "" {
		request.Param("fieldSelector", fields)
	}
	return answer(ctx, request, list)
}

// Create creates the object, and reads the created object into obj.
func (c *Client) Create(ctx context.Context, obj Object) error {
	request, err := c.to(http.MethodPost, obj, obj.GetNamespace())
	if err != nil {
		return err
	}
	return answer(ctx, request.Body(obj), obj)
}

// Update replaces the object, and reads the new object into obj. It fails with a conflict where
// obj has a resource version that is not the newest.
func (c *Client) Update(ctx context.Context, obj Object) error {
	request, err := c.one(http.MethodPut, obj)
	if err != nil {
		return err
	}
	return answer(ctx, request.Body(obj), obj)
}

// Patch changes the object of obj's name and namespace, or a subresource of it,
// and leaves obj as it is.
func (c *Client) Patch(
	ctx context.Context,
	obj Object,
	kind types.PatchType,
	data []byte,
	subresource ...string,
) error {
	request, err := c.one(http.MethodPatch, obj)
	if err != nil {
		return err
	}
	return request.SubResource(subresource...).SetHeader("Content-Type", string(kind)).Body(data).Do(ctx).Error()
}

// Delete deletes the object of obj's name and namespace if it has this UID, and
// fails with a conflict if it has another one.
func (c *Client) Delete(ctx context.Context, obj Object, uid types.UID) error {
	request, err := c.one(http.MethodDelete, obj)
	if err != nil {
		return err
	}
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	return request.Body(options).Do(ctx).Error()
}

// Stream requests all objects of obj's kind in a namespace ("" for all, and for kinds
// without), with the parameters of a list or a watch. It returns once the answer
// begins. The caller closes the stream, which ends with ctx as well.
func (c *Client) Stream(
	ctx context.Context,
	obj runtime.Object,
	namespace string,
	parameters map[string]string,
) (io.ReadCloser, error) {
	request, err := c.to(http.MethodGet, obj, namespace)
	if err != nil {
		return nil, err
	}
	for name, value := range parameters {
		request.Param(name, value)
	}
	return request.Throttle(flowcontrol.NewFakeAlwaysRateLimiter()).Stream(ctx)
}

// to makes a request for the resource of obj's kind, or of the kind that it lists.
func (c *Client) to(verb string, obj runtime.Object, namespace string) (*rest.Request, error) {
	kinds, _, err := c.scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	kind := kinds[0]
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	api, ok := c.versions[kind.GroupVersion()]
	if !ok {
		return nil, fmt.Errorf("no API has %T", obj)
	}
	return api.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(resourceOf(kind)), nil
}

// resourceOf returns the plural of a kind. The plural of NodeInfo is irregular in the API of
// Azure CNS, and NodeRoles is a plural already: no guess finds them.
func resourceOf(kind schema.GroupVersionKind) string {
	switch kind.Kind {
	case "NodeInfo":
		return "nodeinfo"
	case "NodeRoles":
		return "noderoles"
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}

// one makes a request for the object.
func (c *Client) one(verb string, obj Object) (*rest.Request, error) {
	request, err := c.to(verb, obj, obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return request.Name(obj.GetName()), nil
}

// answer makes the request, and reads the answer into obj.
func answer(ctx context.Context, request *rest.Request, obj runtime.Object) error {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return Decode(data, obj)
}

// Decode reads an object in the API's JSON.
func Decode(data []byte, obj runtime.Object) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return fmt.Errorf("decode %T: %w", obj, err)
	}
	return nil
}
