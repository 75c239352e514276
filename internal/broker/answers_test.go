package broker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestPageForAWrite: a login page that a proxy answers to a write is no success.
// What needs the object would otherwise be made without it.
func TestPageForAWrite(t *testing.T) {
	for _, contentType := range []string{"text/html; charset=utf-8", "application/octet-stream"} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprint(w, "<!DOCTYPE html><title>Log in</title>")
		})
		w := &writer{client: c, via: ViaHTTP}
		for _, o := range []topology.Object{
			&topology.Queue{VirtualHost: "/", Name: "q", Type: topology.Classic}, &topology.Exchange{VirtualHost: "/", Name: "x", Type: "topic"},
			&topology.Policy{VirtualHost: "/", Name: "p"}, &topology.Parameter{VirtualHost: "/", Component: "c", Name: "n"},
			&topology.Permission{VirtualHost: "/", User: "u"},
			&topology.Binding{VirtualHost: "/", Source: "x", Destination: "q", DestinationType: topology.ToQueue},
		} {
			for what, err := range map[string]error{"create": w.Create(t.Context(), o), "delete": w.Delete(t.Context(), o)} {
				if !errors.Is(err, ErrNotManagementAPI) || !strings.Contains(err.Error(), "Log in") || IsTransient(err) {
					t.Errorf("%s %s: %v", what, o.Key(), err)
				}
			}
		}
	}
}

// TestEndlessAnswer: what never stops sending does not take all memory.
func TestEndlessAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		piece := []byte(strings.Repeat(`{"name":"x"},`, 1000))
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	c.transport.largest = 1 << 20
	_, err := c.Read(t.Context(), []string{"/"}, ReadOptions{})
	if !errors.Is(err, ErrNotManagementAPI) || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("%v", err)
	}
}

// TestNotFoundAfterFault: the 404 of a node that comes up is no final word; any
// other is.
func TestNotFoundAfterFault(t *testing.T) {
	for _, fault := range []bool{false, true} {
		calls := 0
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if calls++; fault && calls == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"Object Not Found","reason":"Not Found"}`)
		})
		err := (&writer{client: c, via: ViaHTTP}).Create(t.Context(), &topology.Policy{VirtualHost: "/", Name: "p"})
		if !IsNotFound(err) || IsTransient(err) != fault || IsUnknown(err) {
			t.Errorf("after a fault %t: %v, transient %t", fault, err, IsTransient(err))
		}
	}
}
