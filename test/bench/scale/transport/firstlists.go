// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// FirstLists answer the lists of holders, after the lab itself has read each resource once. An API
// server compares all objects of a resource with the selector of each list, which takes 0.14 s for
// 100,000 Addresses: a node that starts costs it 1 to 2 s. Watches, and lists of the present state
// for a roll call, go to the API server. Hollow nodes list by themselves.
type FirstLists struct {
	host   string
	client *http.Client

	mu        sync.Mutex
	resources map[string]*listed
}

// listed is the API's first list of one resource.
type listed struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`

	mu sync.Mutex
	// indexes are the numbers of items by the value of a field, by the field's path.
	indexes map[string]map[string][]int
}

// largePaths are the paths of the resources with most objects. They are listed before nodes load
// the API server.
var largePaths = []string{"/api/v1/pods", "/apis/" + v1alpha1.GroupVersion.String() + "/addresses"}

// NewFirstLists returns lists of the API server that config leads to. No list is read yet.
func NewFirstLists(config *rest.Config) (*FirstLists, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of first lists: %w", err)
	}
	return &FirstLists{host: config.Host, client: client, resources: map[string]*listed{}}, nil
}

// ReadLarge reads the resources with most objects.
func (f *FirstLists) ReadLarge() error {
	for _, path := range largePaths {
		if _, err := f.of(path); err != nil {
			return err
		}
	}
	return nil
}

// of returns the API's list at a path, from the first request for it.
func (f *FirstLists) of(path string) (*listed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.resources[path]; r != nil {
		return r, nil
	}
	all := &listed{indexes: map[string]map[string][]int{}}
	for more := true; more; more = all.Continue != "" {
		page, err := f.read(path, all.Continue)
		if err != nil {
			return nil, err
		}
		all.TypeMeta, all.ListMeta, all.Items = page.TypeMeta, page.ListMeta, append(all.Items, page.Items...)
	}
	f.resources[path] = all
	return all, nil
}

// pageSize is how many objects a request lists at most. All at once would take the API server
// longer than a request may.
const pageSize = 5000

func (f *FirstLists) read(path, next string) (*listed, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "continue": {next}}
	response, err := f.client.Get(f.host + path + "?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list %s: answer %d", path, response.StatusCode)
	}
	page := &listed{}
	if err := json.NewDecoder(response.Body).Decode(page); err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return page, nil
}

// Wrap returns the transport of a holder. It fits rest.Config.Wrap.
func (f *FirstLists) Wrap(node string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &answered{next: next, lists: f, node: node, watched: map[string]bool{}}
	}
}

// answered is the transport of a holder.
type answered struct {
	next  http.RoundTripper
	lists *FirstLists
	node  string

	mu sync.Mutex
	// watched has the streams that have begun. A second stream of one resource means that the API
	// server no longer has the changes since the first list.
	watched map[string]bool
}

// RoundTrip implements http.RoundTripper.
func (a *answered) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method != http.MethodGet ||
		!query.Has("fieldSelector") && !query.Has("labelSelector") && !query.Has("sendInitialEvents") {
		return a.next.RoundTrip(request)
	}
	streamed := query.Get("sendInitialEvents") == "true"
	if query.Get("watch") != "true" && !query.Has("resourceVersion") {
		return a.next.RoundTrip(request) // the roll call reads the present state
	}
	if query.Get("watch") == "true" && (!streamed || a.again(request)) {
		return a.next.RoundTrip(request)
	}
	r, err := a.lists.of(request.URL.Path)
	if err != nil {
		return nil, err
	}
	items, err := r.selected(query.Get("fieldSelector"), query.Get("labelSelector"), a.node)
	if err != nil {
		return nil, err
	}
	if !streamed {
		return r.list(request, items)
	}
	query.Del("sendInitialEvents")
	query.Del("resourceVersionMatch")
	query.Set("resourceVersion", r.ResourceVersion)
	since := request.Clone(request.Context())
	since.URL.RawQuery = query.Encode()
	response, err := a.next.RoundTrip(since)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(r.events(items)), response.Body), response.Body}
	return response, nil
}

// again reports whether a stream has begun before.
func (a *answered) again(request *http.Request) bool {
	query := request.URL.Query()
	key := request.URL.Path + "?" + query.Get("fieldSelector") + "&" + query.Get("labelSelector")
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.watched[key]
	a.watched[key] = true
	return before
}

// selected returns the items that selectors select. Of Nodes and Addresses it returns only the
// node's own, because a holder forgets the others.
func (r *listed) selected(byField, byLabel, node string) ([]json.RawMessage, error) {
	field, err := fields.ParseSelector(byField)
	if err != nil {
		return nil, fmt.Errorf("read a selector: %w", err)
	}
	label, err := labels.Parse(byLabel)
	if err != nil {
		return nil, fmt.Errorf("read a selector: %w", err)
	}
	switch r.Kind {
	case "NodeList":
		field = fields.AndSelectors(fields.OneTermEqualSelector("metadata.name", node), field)
	case "AddressList":
		field = fields.AndSelectors(fields.OneTermEqualSelector("spec.node", node), field)
	}
	numbers, all := r.candidates(field)
	all = all && label.Empty()
	var items []json.RawMessage
	for _, i := range numbers {
		object := unstructured.Unstructured{}
		if !all {
			if err := json.Unmarshal(r.Items[i], &object.Object); err != nil {
				return nil, fmt.Errorf("read an object of %s: %w", r.Kind, err)
			}
		}
		if all || field.Matches(contentOf(object)) && label.Matches(labels.Set(object.GetLabels())) {
			items = append(items, r.Items[i])
		}
	}
	return items, nil
}

// candidates returns the numbers of the items that fulfil all requirements of equality, ascending.
// all reports that the selector has only such requirements.
func (r *listed) candidates(selector fields.Selector) (numbers []int, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, indexed := true, false
	for _, one := range selector.Requirements() {
		if one.Operator == selection.NotEquals {
			all = false
			continue
		}
		with := r.index(one.Field)[one.Value]
		if !indexed {
			numbers, indexed = slices.Clone(with), true
			continue
		}
		numbers = slices.DeleteFunc(numbers, func(i int) bool {
			_, found := slices.BinarySearch(with, i)
			return !found
		})
	}
	if !indexed {
		for i := range r.Items {
			numbers = append(numbers, i)
		}
	}
	return numbers, all
}

// index has the numbers of items, ascending, by the value of a field. The caller holds mu.
func (r *listed) index(field string) map[string][]int {
	index := r.indexes[field]
	if index == nil {
		index = map[string][]int{}
		for i, item := range r.Items {
			object := unstructured.Unstructured{}
			if err := json.Unmarshal(item, &object.Object); err == nil {
				value := contentOf(object).Get(field)
				index[value] = append(index[value], i)
			}
		}
		r.indexes[field] = index
	}
	return index
}

// contentOf returns the fields of an object by their paths.
func contentOf(object unstructured.Unstructured) content { return content(object.Object) }

type content map[string]any

// Has implements fields.Fields.
func (c content) Has(field string) bool { return c.Get(field) != "" }

// Get implements fields.Fields.
func (c content) Get(field string) string {
	value, found, err := unstructured.NestedFieldNoCopy(c, strings.Split(field, ".")...)
	if !found || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

// list returns the answer to the request for a list.
func (r *listed) list(request *http.Request, items []json.RawMessage) (*http.Response, error) {
	text, err := json.Marshal(map[string]any{
		"kind": r.Kind, "apiVersion": r.APIVersion, "metadata": r.ListMeta, "items": slices.Concat([]json.RawMessage{}, items),
	})
	if err != nil {
		return nil, fmt.Errorf("write a list of %s: %w", r.Kind, err)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}

// events returns the events at the beginning of a stream.
func (r *listed) events(items []json.RawMessage) []byte {
	var text bytes.Buffer
	for _, item := range items {
		fmt.Fprintf(&text, `{"type":"ADDED","object":%s}`+"\n", item)
	}
	kind := strings.TrimSuffix(r.Kind, "List")
	fmt.Fprintf(
		&text,
		`{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":%q,"annotations":{%q:"true"}}}}`+"\n",
		kind,
		r.APIVersion,
		r.ResourceVersion,
		metav1.InitialEventsAnnotationKey,
	)
	return text.Bytes()
}
