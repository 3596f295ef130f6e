// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const (
	// maxBody limits the body of a request, in bytes.
	maxBody = 64 << 10
	// TCPPatience is shorter than the 5 s after which clients of CNS give up.
	TCPPatience = 4 * time.Second
	// SocketPatience is shorter than the patience of alioth-ipam and of the kubelet.
	SocketPatience = 30 * time.Second
	// grace is the time after its patience that a Service may still use to tell its reason to
	// wait.
	grace = 500 * time.Millisecond
)

// Config has the settings and functions of a Server.
type Config struct {
	Service Service
	// Endpoints keeps the additions of clients; nil where nothing is kept.
	Endpoints *endpoints.Store
	// Node returns the common part of all answers.
	Node func() answer.Node
	// Metrics is nil where nobody reads them.
	Metrics *Metrics
	Log     *slog.Logger
}

// Server answers requests.
type Server struct {
	cfg      Config
	failures failures
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	return &Server{cfg: cfg}
}

// Place is the place of clients.
type Place struct {
	// Socket is true for the unix socket of root. It has more paths than TCP, which every
	// process on the node may open.
	Socket bool
	// Token is the proof that requests have to carry (wire.TokenScheme); "" at the socket, which
	// has other means.
	Token string
	// Patience limits how long a request takes, from its headers to its answer.
	Patience time.Duration
}

// call is a request with its body.
type call struct {
	containerID string
	body        []byte
}

// decode reads the body into a value.
func (c call) decode(into any) error {
	if err := json.Unmarshal(c.body, into); err != nil {
		return &refusal{http.StatusBadRequest, wire.InvalidRequest, "the body is not what this path wants: " + err.Error()}
	}
	return nil
}

// handler carries out one operation.
type handler struct {
	// serve returns the answer.
	serve func(ctx context.Context, c call) (any, error)
	// failed makes the answer of an error.
	failed func(wire.Response) any
	// unless is the code of errors that are neither *NotReady nor *Failure.
	unless wire.ReturnCode
}

// handlers returns the handlers by the names of their operations.
func (s *Server) handlers() map[string]handler {
	bare := func(r wire.Response) any { return r }
	one := func(r wire.Response) any { return wire.IPConfigResponse{Response: r} }
	many := func(r wire.Response) any { return wire.IPConfigsResponse{PodIPInfo: []wire.PodIPInfo{}, Response: r} }
	const contradiction = wire.InconsistentIPConfigState
	return map[string]handler{
		"requestIPConfigs": {s.requestMany, many, wire.FailedToAllocateIPConfig},
		"requestIPConfig":  {s.requestOne, one, wire.FailedToAllocateIPConfig},
		"releaseIPConfigs": {s.releaseMany, bare, contradiction},
		"releaseIPConfig":  {s.releaseOne, bare, contradiction},
		"getEndpoint": {
			s.getEndpoint,
			func(r wire.Response) any { return wire.GetEndpointResponse{Response: r} },
			contradiction,
		},
		"patchEndpoint":  {s.patchEndpoint, bare, contradiction},
		"deleteEndpoint": {s.deleteEndpoint, bare, contradiction},
		"debugIPAddresses": {
			s.debugIPAddresses,
			func(r wire.Response) any { return wire.GetIPAddressStatusResponse{Response: r} },
			contradiction,
		},
		"debugPodContext": {
			s.debugPodContext,
			func(r wire.Response) any { return wire.GetPodContextResponse{Response: r} },
			contradiction,
		},
		"debugRestData": {
			s.debugRestData,
			func(r wire.Response) any { return wire.GetHTTPServiceDataResponse{Response: r} },
			contradiction,
		},
		"health":  {s.health, bare, wire.UnsupportedEnvironment},
		"collect": {s.collect, bare, contradiction},
	}
}

// Handler returns the handler of the answers at a place.
func (s *Server) Handler(place Place) http.Handler {
	routes := map[string]map[string]handler{}
	all := s.handlers()
	for _, op := range wire.Operations() {
		if op.Socket && !place.Socket {
			continue
		}
		if routes[op.Path] == nil {
			routes[op.Path] = map[string]handler{}
		}
		routes[op.Path][op.Method] = all[op.Name]
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !place.proven(r) {
			done := s.cfg.Metrics.begin(otherPaths)
			done(s.unproven(w))
			return
		}
		path, containerID := locate(r.URL.Path)
		methods := routes[path]
		if methods == nil {
			done := s.cfg.Metrics.begin(otherPaths)
			done(s.noPath(w, path))
			return
		}
		done := s.cfg.Metrics.begin(path)
		if h, ok := methods[r.Method]; ok {
			done(s.answer(w, r, h, containerID, place.Patience))
		} else {
			done(s.noMethod(w, methods))
		}
	})
}

// proven reports whether a request comes from a client that reads files of root. A place that
// is neither the socket nor has a token serves nobody.
func (p Place) proven(r *http.Request) bool {
	if p.Socket {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return p.Token != "" && strings.EqualFold(scheme, wire.TokenScheme) &&
		subtle.ConstantTimeCompare([]byte(token), []byte(p.Token)) == 1
}

func (s *Server) unproven(w http.ResponseWriter) wire.ReturnCode {
	w.Header().Set("WWW-Authenticate", wire.TokenScheme)
	return s.refuse(
		w,
		http.StatusUnauthorized,
		wire.UnsupportedEnvironment,
		"the request lacks the header Authorization: "+wire.TokenScheme+" with the content of "+wire.TokenFile+", which root of the node can read; or ask at the socket",
	)
}

// locate returns the path without its version, and with a variable for the container ID.
// The standard multiplexer is of no use here: it redirects paths that are not clean, and
// its answers are not JSON.
func locate(path string) (operation, containerID string) {
	for _, version := range wire.Versions() {
		if rest, ok := strings.CutPrefix(path, version); ok && version != "" {
			path = rest
			break
		}
	}
	if id, ok := strings.CutPrefix(path, wire.EndpointsPath); ok && !strings.Contains(id, "/") {
		return wire.EndpointsPath + wire.ContainerIDVariable, id
	}
	return path, ""
}

func (s *Server) noPath(w http.ResponseWriter, path string) wire.ReturnCode {
	why, known := wire.Refused()[path]
	if !known {
		why = "there is no such path"
	}
	return s.refuse(w, http.StatusNotFound, wire.UnsupportedAPI, why)
}

func (s *Server) noMethod(w http.ResponseWriter, methods map[string]handler) wire.ReturnCode {
	var allowed []string
	for method := range methods {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return s.refuse(w, http.StatusMethodNotAllowed, wire.UnsupportedVerb, "want "+list)
}

func (s *Server) refuse(w http.ResponseWriter, status int, code wire.ReturnCode, why string) wire.ReturnCode {
	response := wire.Response{ReturnCode: code, Message: why}
	return s.write(w, status, code, wire.UnsupportedResponse{Response: response, Inner: response})
}

// answer reads the body, carries out the operation, and writes the only answer, whose code
// it returns.
func (s *Server) answer(
	w http.ResponseWriter,
	r *http.Request,
	h handler,
	containerID string,
	patience time.Duration,
) wire.ReturnCode {
	status, code := http.StatusOK, wire.Success
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	body, err := readBody(ctx, w, r)
	var result any
	if err == nil {
		result, err = s.within(ctx, h, call{containerID: containerID, body: body})
	}
	if err != nil {
		var response wire.Response
		status, response = classify(err, h.unless)
		result, code = h.failed(response), response.ReturnCode
		if s.failures.news(r.URL.Path+" "+response.Message, time.Now()) {
			s.cfg.Log.Info(
				"node IPAM request failed; it is logged once, however often the client asks again",
				"path",
				r.URL.Path,
				"code",
				int(code),
				"error",
				response.Message,
			)
		}
	}
	return s.write(w, status, code, result)
}

// readBody reads the whole body. Only after its end net/http detects that the connection
// was closed.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	deadline, _ := ctx.Deadline()
	// Not every writer has deadlines. A writer of net/http has them, and ends them with the
	// request.
	_ = conn.SetReadDeadline(deadline)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &refusal{
			http.StatusRequestEntityTooLarge,
			wire.InvalidRequest,
			fmt.Sprintf("the body has more than %d bytes", maxBody),
		}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, wire.InvalidRequest, "read the body: " + err.Error()}
	}
	return body, nil
}

// outcome is the result of an operation.
type outcome struct {
	result any
	err    error
}

// within carries out an operation, and returns in time even if the operation does not: a client
// without an answer would not know that it may ask again.
func (s *Server) within(ctx context.Context, h handler, c call) (any, error) {
	done := make(chan outcome, 1)
	go func() { done <- s.guarded(ctx, h, c) }()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-late.C:
		return nil, &NotReady{Reason: "the node's daemon is still at it; a repeated request finds what it has done"}
	}
}

// guarded turns a panic into an error, as net/http does for the goroutine of a request.
func (s *Server) guarded(ctx context.Context, h handler, c call) (o outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			s.cfg.Log.Error("panic in a node IPAM request", "reason", reason, "stack", string(debug.Stack()))
			o = outcome{err: errors.New("internal error; the log of alioth-cnid has it")}
		}
	}()
	result, err := h.serve(ctx, c)
	return outcome{result, err}
}

func (s *Server) write(w http.ResponseWriter, status int, code wire.ReturnCode, result any) wire.ReturnCode {
	text, err := json.Marshal(result)
	if err != nil {
		// No type of package wire can fail; a client that got half an answer would hang.
		s.cfg.Log.Error("can't encode an answer", "error", err)
		status, code, text = http.StatusInternalServerError, wire.InconsistentIPConfigState, []byte(
			`{"ReturnCode":29,"Message":"internal error"}`,
		)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(wire.CodeHeader, code.String())
	w.WriteHeader(status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		s.cfg.Log.Debug("the client does not read the answer", "error", err)
	}
	return code
}
