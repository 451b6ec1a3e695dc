"""The earlier name of the adjacency relations."""

from dpinfer.adjacency import Adjacency

Neighbours = Adjacency
